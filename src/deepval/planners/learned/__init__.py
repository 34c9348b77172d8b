"""The learned planner behind PKL and TIP, in our own code: road and boxes -> raster -> network -> plan, PKL, TIP.

All modules but `masks` and `metrics` import `network` and so need torch (extra `torch`); `rasters` loads OpenCV when it
draws.
"""
