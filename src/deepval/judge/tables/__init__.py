"""Input tables of the user -> checked columns: losses, scores, loss terms, groups and
costs.
"""
