"""What a user brings: losses, scores, loss terms, groups and costs, as columns."""
