"""The Dockerfile cannot be built where the tests run, so it is read instead."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HADOLINT = shutil.which("hadolint", path=str(Path(sys.executable).parent))


def instructions(keyword: str) -> list[str]:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    return re.findall(rf"^{keyword} (.+)$", text, flags=re.MULTILINE)


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is published for x86_64 Linux only")
def test_hadolint_finds_nothing() -> None:
    assert HADOLINT is not None
    done = subprocess.run(
        [HADOLINT, "--config", str(ROOT / ".hadolint.yaml"), str(ROOT / "Dockerfile")],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "")


def test_every_command_is_one_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)
    recipes = re.findall(r"^\t@?(.+)$", makefile, re.MULTILINE)

    commands = instructions("RUN")

    assert commands
    assert set(commands) <= {*recipes, *(f"make {target}" for target in targets)}


def test_every_image_runs_as_a_plain_user_on_a_slim_base() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", text, re.MULTILINE)
    bases = {stage: base for base, stage in stages}

    for stage in ("gateway", "cuda", "cpu"):
        body = re.split(r"^FROM ", text[text.index(f" AS {stage}\n") :], flags=re.MULTILINE)[0]
        assert re.findall(r"^USER (.+)$", body, re.MULTILINE) == ["10001:10001"]
        assert "\nRUN " not in body
    assert {stage: bases[stage] for stage in ("gateway", "cpu", "cuda")} == {
        "gateway": "final",
        "cpu": "final-engine",
        "cuda": "final-cuda",
    }
    assert bases["final-engine"] == bases["final-cuda"] == "final"
    assert bases["final"].endswith("-slim-bookworm")


def test_only_gpus_bring_a_compiler_along() -> None:
    """Source: triton/runtime/build.py calls `cc` when a launcher is not in its cache."""
    text = (ROOT / "Dockerfile").read_text("utf-8")

    for stage, command in (("final-engine", "runtime"), ("final-cuda", "cuda")):
        body = re.split(r"^FROM ", text[text.index(f" AS {stage}\n") :], flags=re.MULTILINE)[0]
        assert re.findall(r"^RUN (.+)$", body, re.MULTILINE) == [f"scripts/apt.sh {command}"]


def test_what_is_copied_is_there_and_reaches_the_builder() -> None:
    allowed = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line.startswith("!")
    }
    copied = {
        source
        for line in instructions("COPY")
        if "--from" not in line
        for source in line.split()[:-1]
    }

    assert copied <= allowed
    assert all((ROOT / source).exists() for source in copied)


def test_every_profile_that_an_image_starts_exists() -> None:
    profiles = re.findall(r"configs/[\w.-]+\.yaml", "\n".join(instructions("CMD")))

    assert len(profiles) == 3
    assert all((ROOT / profile).is_file() for profile in profiles)
