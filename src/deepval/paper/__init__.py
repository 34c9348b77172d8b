"""The paper as a client of the library: its analyses, the runner, and a report that
compares a run with the paper.
"""
