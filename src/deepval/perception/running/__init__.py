"""Running a detector: images -> detections, unit by unit, and what each mode costs."""
