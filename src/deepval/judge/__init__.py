"""Losses, scores and budgets -> rows with verdicts. Independent of driving."""
