"""Door 2: detections and drives -> losses of each mode, input by input.

Worlds, data sets, perception, planners and downstream systems; a cell is their result
in a folder.
"""
