"""Reports of perception modes and their quality: detections, filters, operating points,
matching, losses.
"""
