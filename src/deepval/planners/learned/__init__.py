"""The learned planner behind PKL and TIP, in our own code: road and boxes -> raster -> network -> plan, PKL, TIP.

Only `network`, `weights`, `forward` and `training` need torch (extra `torch`), only `rasters` OpenCV; each loads it
when it is used.
"""
