"""The learned planner behind PKL and TIP, in our own code: road and boxes -> raster -> network -> plan, PKL, TIP.

Only `network` imports torch (extra `torch`) at once; `planner` and `training` load it at its first use, and `rasters`
loads OpenCV when it draws.
"""
