"""Releases of vLLM have what we use of them; scripts/fetch_vllm.py gets those not installed."""

import ast
from pathlib import Path

import pytest
import vllm

from engine.worker.versions import TESTED_VLLM_VERSIONS
from scripts.fetch_vllm import CACHE
from scripts.vllm_contract import (
    Release,
    Subclass,
    Use,
    find_differences,
    find_patches,
    find_subclasses,
    find_uses,
    resolve_alias,
)

INSTALLED = "installed"


@pytest.fixture(scope="module", params=[INSTALLED, *TESTED_VLLM_VERSIONS])
def release(request: pytest.FixtureRequest) -> Release:
    if request.param == INSTALLED:
        assert vllm.__file__ is not None
        return Release(Path(vllm.__file__).parent.parent)
    folder = CACHE / request.param
    if not folder.is_dir():
        pytest.skip(
            f"the sources of vLLM {request.param} are not there: python -m scripts.fetch_vllm"
        )
    return Release(folder)


def names(use: Use) -> str:
    return f"{use.file}-{use.module}.{use.name}"


@pytest.mark.parametrize("use", find_uses(), ids=names)
def test_what_we_import_is_there(use: Use, release: Release) -> None:
    assert release.has(use.module, use.name) or release.has(use.instead, use.name)


SUBCLASSES = [pytest.param(one, id=f"{one.file}-{one.name}") for one in find_subclasses()]


@pytest.mark.parametrize("ours", SUBCLASSES)
def test_what_we_override_is_called_as_before(ours: Subclass, release: Release) -> None:
    alias, _, inner = ours.base.partition(".")
    use = resolve_alias(ours.file, alias)
    module, name = (f"{use.module}.{use.name}", inner) if inner else (use.module, use.name)
    base = release.find_class(module, name)
    assert base is not None

    problems = [
        f"{method.name}: {problem}"
        for method in ours.methods()
        if (theirs := base.method(method.name)) is not None and method.name != "__init__"
        for problem in find_differences(method, theirs)
    ]
    inherited = base.attributes() | {"__init__"}
    problems += [f"{name} is gone" for name in ours.calls_of_super() - inherited]
    problems += [f"self.{name} is gone" for name in ours.reads() - inherited]

    assert problems == []


@pytest.mark.parametrize(("file", "target"), find_patches())
def test_what_we_replace_is_there(file: str, target: str, release: Release) -> None:
    owner, _, name = target.rpartition(".")
    use = resolve_alias(file, owner)

    of_class = release.find_class(use.module, use.name)
    if of_class is not None:
        assert name in of_class.attributes()
    else:
        assert release.has(f"{use.module}.{use.name}" if use.name else use.module, name)


def test_we_know_of_our_subclasses_and_replacements() -> None:
    """Were they no longer found, the tests above would pass for nothing."""
    names = {(one.file, one.name) for one in find_subclasses()}
    assert {
        ("worker/scheduler.py", "HybridScheduler"),
        ("worker/v1/runner.py", "HybridGPUModelRunner"),
        ("worker/v2/runner.py", "HybridCPUModelRunner"),
        ("worker/v2/runner.py", "HybridGPUModelRunner"),
        ("worker/v2/speculator.py", "OwnSpeculator"),
        ("worker/worker.py", "HybridWorker"),
    } <= names
    assert ("worker/v2/speculator.py", "vllms.init_speculator") in find_patches()


@pytest.mark.parametrize(
    ("ours", "theirs", "is_same"),
    [
        ("def f(self, a, b): ...", "def f(self, a, b): ...", True),
        ("def f(self, a): ...", "def f(self, a, b): ...", False),
        ("def f(self, a, *args, **kwargs): ...", "def f(self, a, b, c=1): ...", True),
        ("def f(self, b, *args, **kwargs): ...", "def f(self, a, b): ...", False),
        ("def f(self, a): ...", "def f(self, a, *, more): ...", False),
        ("def f(self, a, *, more): ...", "def f(self, a, *, more): ...", True),
    ],
)
def test_a_changed_signature_is_found(ours: str, theirs: str, is_same: bool) -> None:
    mine, other = ast.parse(ours).body[0], ast.parse(theirs).body[0]
    assert isinstance(mine, ast.FunctionDef)
    assert isinstance(other, ast.FunctionDef)

    assert (find_differences(mine, other) == []) is is_same
