"""Door 4: allocators that decide before the expensive mode runs, what they may look
at, how they are fitted and scored, and the board that ranks them.
"""
