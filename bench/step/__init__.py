"""`make bench-step`: what a step costs on this processor, beside reading its weights once.

A model of SmolLM2-135M's shape with random weights (model.py) is timed in parts (measure.py) with
each kernel that the processor has; beside it a service with the real one answers through HTTP
(service.py); report.py computes.
"""
