"""The gate, simulated: rules that choose drafts, on curves of step time, step by step.

Pure arithmetic on a simulated clock, the same for the same seed. The simulated engine is
`engine.simulation`. `python -m bench.gate_sim` is `make bench-gate-sim`.
"""
