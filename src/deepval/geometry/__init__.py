"""Pure array kernels: boxes, cameras, the monocular lift, motion, ground shapes. None knows a truth."""
