"""Reports of perception modes: detections, their files, their match with the reference
and their losses.
"""
