"""The names of a recipe's steps, in order."""

from typing import Literal, get_args

Step = Literal["text", "hidden", "train", "evaluate", "export"]
STEPS: tuple[Step, ...] = get_args(Step)
