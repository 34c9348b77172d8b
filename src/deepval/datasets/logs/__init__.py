"""Logged drives with lane maps (ScenarioNet, nuPlan, Argoverse 2, Waymo,
CommonRoad).
"""
