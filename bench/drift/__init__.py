"""`make bench-drift`: does a head keep up when the workload changes its kind?

A worker answers chat, then SQL, then German, and records it (traffic.py). The text is then replayed
in the order in which it was written: a static head, the suffix index alone, and a head that is
trained on what came before and swapped in by the worker's own rule (replay.py).
"""
