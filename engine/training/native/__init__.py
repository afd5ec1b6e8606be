"""Trains vLLM's own drafters (EAGLE-3, P-EAGLE, DFlash) with the library `speculators` (ADR 38)."""
