"""`make bench-step`: what a step costs on this processor, beside reading its weights once.

A model of SmolLM2-135M's shape with random weights (model.py) is timed in parts (measure.py) with
each kernel that the processor has; report.py computes. Needs no model file, no vLLM and no GPU.
"""
