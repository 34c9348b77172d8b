"""How it is judged: losses, scores and budgets -> rows with verdicts. Knows nothing of driving."""
