"""Renders the chart with helm, as objects that a test can look into."""

import copy
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

ROOT = Path(__file__).parents[3]
CHART = ROOT / "helm" / "specgate"
CI_FILES = tuple(sorted((CHART / "ci").glob("*-values.yaml")))
VERSIONS = ("1.29.0", "1.34.0", "1.37.0")
"""Of Kubernetes: the oldest that the chart takes, one between, the newest that is known."""

# `make` puts it beside the interpreter; another may be on the path.
HELM = shutil.which("helm", path=str(Path(sys.executable).parent)) or shutil.which("helm")
needs_helm = pytest.mark.skipif(
    HELM is None and platform.machine() != "x86_64",
    reason="helm is published for x86_64 Linux only",
)

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rendered:
    """The objects of one release called `sg` in the namespace `llm`."""

    objects: tuple[Object, ...]

    def of(self, kind: str) -> list[Object]:
        """All objects of a kind."""
        return [found for found in self.objects if found["kind"] == kind]

    def one(self, kind: str, name: str) -> Object:
        """The object of that kind and name; it is there once."""
        (found,) = [each for each in self.of(kind) if each["metadata"]["name"] == name]
        return found

    def pod(self, component: str) -> Object:
        """The pod template's `spec` of `gateway` or `engine` (of the leader, in groups)."""
        return cast("Object", self.template(component)["spec"])

    def template(self, component: str) -> Object:
        """The pod template of `gateway` or `engine`."""
        for kind in ("Deployment", "StatefulSet", "LeaderWorkerSet"):
            for found in self.of(kind):
                if found["metadata"]["labels"]["app.kubernetes.io/component"] == component:
                    spec = found["spec"]
                    group = spec.get("leaderWorkerTemplate")
                    return cast(
                        "Object", spec["template"] if group is None else group["leaderTemplate"]
                    )
        raise AssertionError(component)

    def container(self, component: str) -> Object:
        """The container of a component's pod; it has one."""
        (found,) = self.pod(component)["containers"]
        return cast("Object", found)

    def settings(self) -> Object:
        """What the settings file says, both sections."""
        text = self.one("ConfigMap", "sg-specgate-settings")["data"]["settings.yaml"]
        return cast("Object", yaml.safe_load(text))


def render(*files: Path, version: str = "1.34.0", **values: Any) -> Rendered:
    """Render the chart.

    Args:
        files: Values files, the later over the earlier.
        version: Of Kubernetes.
        values: Values over all files, as nested mappings.
    """
    done = _template(files, version, json.dumps(values))
    assert done.returncode == 0, done.stderr
    # A copy: tests may change what they get, and the same rendering serves many.
    return Rendered(tuple(copy.deepcopy(list(_objects(done.stdout)))))


def complaint(*files: Path, **values: Any) -> str:
    """What helm says to values that it refuses."""
    done = _template(files, "1.34.0", json.dumps(values))
    assert done.returncode != 0
    return done.stderr


def run_helm(arguments: Sequence[str], values: str = "") -> "subprocess.CompletedProcess[str]":
    """Run helm without a home, a cluster or a network."""
    assert HELM is not None
    return subprocess.run(
        [HELM, *arguments],
        input=values,
        env={"HELM_CACHE_HOME": "/nonexistent", "KUBECONFIG": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@cache
def _template(
    files: tuple[Path, ...], version: str, values: str
) -> "subprocess.CompletedProcess[str]":
    chosen = [argument for file in files for argument in ("--values", str(file))]
    fixed = ["template", "sg", str(CHART), "--namespace", "llm", "--kube-version", version]
    return run_helm([*fixed, *chosen, "--values", "-"], values)


def _objects(text: str) -> Iterator[Object]:
    for document in yaml.load_all(text, yaml.CSafeLoader):
        if document is not None:
            assert isinstance(document, dict)
            yield document
