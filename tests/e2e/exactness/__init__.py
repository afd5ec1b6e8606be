"""Speculation changes no token: a real worker with drafts against itself without."""
