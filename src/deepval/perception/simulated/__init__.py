"""The simulated detector: a profile fitted to real detections -> simulated detections."""
