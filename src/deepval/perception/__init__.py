"""What a mode reports and how good it is: detections, filters, operating points, matching, losses."""
