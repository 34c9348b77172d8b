"""What every part uses: arrays, errors, files, progress, workers; nothing of
decisions.
"""
