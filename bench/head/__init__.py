"""`make bench-head`: how much of a draft head's drafts is accepted, what they cost and bring.

The workers are those of bench/engine with other settings (methods.py); measure.py asks them,
acceptance.py and timing.py read what they say, report.py computes.
"""
