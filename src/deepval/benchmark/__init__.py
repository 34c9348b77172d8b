"""The protocol over both halves: data sets and modes -> cells, splits, submissions, leaderboard."""
