"""The simulated detector: a profile fitted to real detections -> what it would report."""
