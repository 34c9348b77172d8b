"""The benchmark as a protocol: tracks, submissions, integrity, standings and the
leaderboard.
"""
