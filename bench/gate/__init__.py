"""`make bench-gate`: the gate on a real worker, against no drafts and drafts of fixed lengths.

Three workers (settings.py) answer the same requests in turn: one without speculation, one with the
profile's gate, and one that drafts a fixed length, which each request sets.
"""
