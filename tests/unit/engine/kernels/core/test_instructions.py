"""Which kernels a process uses, and how a test chooses others."""

import json
import os
import subprocess
import sys

import pytest
import torch

from engine.kernels import linear_kernels

PROBE = """
import json, torch
from engine.kernels import attention_kernels, linear_kernels
kinds = torch.bfloat16, torch.float32
print(json.dumps([[linear_kernels(kind), attention_kernels(kind)] for kind in kinds]))
"""


def kernels(wanted: str) -> list[list[list[str]]]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        env=os.environ | {"TEST_SPECGATE_INSTRUCTIONS": wanted},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found: list[list[list[str]]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", ["amx", "avx512_bf16", "avx512", "avx2"])
def test_a_test_can_use_a_lesser_processors_kernels(name: str) -> None:
    if name not in linear_kernels(torch.bfloat16):
        pytest.skip(f"needs a processor with the kernel {name}")

    halves, floats = kernels(name)

    assert [names[0] for names in halves] == [name, name]
    least = {"amx": "avx512", "avx512_bf16": "avx512"}.get(name, name)
    assert [names[0] for names in floats] == [least, least]


def test_a_kernel_that_is_not_here_leaves_none() -> None:
    assert kernels("none such") == [[[], []], [[], []]]
