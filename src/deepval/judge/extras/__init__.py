"""What a row does not need: functions of resamples and contests, one question a file.

Nothing that computes a row imports this package; `evaluation` calls what a result
stores.
"""
