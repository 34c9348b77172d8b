"""Logged drives with lane maps (ScenarioNet, nuPlan)."""
