"""Linear layers of a target that decodes on a CPU: a few rows more cost next to nothing."""

from engine.linear.packed import PackedLinear, is_supported, kernels

__all__ = ["PackedLinear", "is_supported", "kernels"]
