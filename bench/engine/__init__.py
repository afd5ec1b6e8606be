"""`make bench-engine`: tokens per second of workers with and without speculation.

Each method is a worker process of its own (methods.py, baseline.py), and gets its requests
over a Unix socket, without a gateway: fleet.py starts them, measure.py sends requests to one after
the other, report.py computes the figures.
"""
