"""Finds the drafters that are best for a model and a workload (docs/tuning.md, ADR 39).

Each variant is measured on a worker of its own, simulated at other concurrencies, and the best are
confirmed. Nothing here decides while a worker serves; that is the gate (`engine.policy`).
"""
