"""Fits a detection profile on measured outcomes and compares the two; used by
tools/fit_profile.py.
"""
