"""`make bench-engine`: output tokens a second of workers that speculate, and of one that does not.

Each method is a worker process of its own (methods.py, baseline.py), asked over its Unix socket
with no gateway between; fleet.py starts them, measure.py asks them in turn, report.py computes.
"""
