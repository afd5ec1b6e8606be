"""`make gpu-check`: what only a machine with a GPU can show, in at most ten minutes.

Each method is served in turn. While its server runs, everything is measured that needs it. A part
that is done is not done again, so a session that is cut off goes on where it was.
"""
