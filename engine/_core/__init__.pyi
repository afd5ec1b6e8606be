"""The engine's C++: one compiled module, with a submodule for each room."""

from engine._core import drafting, heads, kernels, policy, suffix

__all__ = ["drafting", "heads", "kernels", "policy", "suffix"]
