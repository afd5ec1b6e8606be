"""`python -m engine.models`: there is no model to fetch."""
