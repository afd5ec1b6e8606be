"""`make bench-swap`: how long steps are while a draft head is loaded and tried.

Gateway and worker of the default profile answer one client; heads are loaded in alternation with
quiet time (measure.py), and report.py computes.
"""
