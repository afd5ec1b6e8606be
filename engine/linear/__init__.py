"""Linear layers of a target that decodes on a CPU: a few rows more cost next to nothing."""

from engine.linear._core import is_supported
from engine.linear.packed import PackedLinear

__all__ = ["PackedLinear", "is_supported"]
