"""Fine-tunes the serving head on recorded traffic, beside the worker (docs/adr/0040)."""
