"""The engine's one extension: a submodule for each room that has C++ (its core/)."""

from engine._core import drafting, heads, kernels, policy, suffix

__all__ = ["drafting", "heads", "kernels", "policy", "suffix"]
