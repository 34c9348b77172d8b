"""A data set, two or more modes, a placing and a downstream system -> a cell: losses
per input with their data.
"""
