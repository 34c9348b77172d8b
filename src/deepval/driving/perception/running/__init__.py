"""Running a detector: images -> detections, unit by unit, and the cost of each mode."""
