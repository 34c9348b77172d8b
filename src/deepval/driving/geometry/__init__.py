"""Pure array kernels: boxes, cameras, the monocular lift, motion, ground shapes. None
of them reads a truth.
"""
