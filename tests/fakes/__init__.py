"""Fakes we own: a scripted stand-in for a vLLM worker, for faults and for speed tests.

Import from `tests.fakes.worker`; nothing is re-exported, so that it also runs with `python -m`.
"""
