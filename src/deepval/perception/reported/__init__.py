"""What modes reported: detections, their files, how they match the reference and what they lose."""
