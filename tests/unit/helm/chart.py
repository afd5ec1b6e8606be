"""Renders the chart with helm, once for each values file."""

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

ROOT = Path(__file__).parents[3]
CHART = ROOT / "helm" / "specgate"
GOLDEN = Path(__file__).parent / "golden"
FILES: Mapping[str, Path | None] = {
    "defaults": None,
    **{file.stem.removesuffix("-values"): file for file in sorted(CHART.glob("ci/*-values.yaml"))},
    "example": ROOT / "examples" / "kubernetes" / "values.yaml",
}
"""The values files that are rendered, by the names of their golden files."""
WORKLOADS = ("Deployment", "StatefulSet")
VERSIONS = ("1.29.0", "1.37.0")
"""Kubernetes releases: the oldest that the chart supports and the newest known one."""

# `make` puts it beside the interpreter; another may be on the path.
HELM = shutil.which("helm", path=str(Path(sys.executable).parent)) or shutil.which("helm")
needs_helm = pytest.mark.skipif(
    HELM is None and platform.machine() != "x86_64",
    reason="helm is published for x86_64 Linux only",
)

STANDARD_LABELS = frozenset(
    {
        "helm.sh/chart",
        *(
            f"app.kubernetes.io/{name}"
            for name in ("name", "instance", "version", "part-of", "managed-by")
        ),
    }
)
"""Labels of every object."""

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rendered:
    """The objects of one release called `sg` in the namespace `llm`; shared, so not to be changed.

    Attributes:
        objects: The manifests.
        values: The chart's defaults with the values file merged in.
    """

    objects: tuple[Object, ...]
    values: Object

    def of(self, kind: str) -> list[Object]:
        """All objects of a kind."""
        return [found for found in self.objects if found["kind"] == kind]

    def one(self, kind: str, name: str) -> Object:
        """The object of that kind and name.

        Raises:
            ValueError: None or several of them exist.
        """
        (found,) = [each for each in self.of(kind) if each["metadata"]["name"] == name]
        return found

    def component(self, kind: str, component: str) -> Object:
        """The one object of a kind that belongs to `gateway` or `engine`."""
        label = "app.kubernetes.io/component"
        (found,) = [e for e in self.of(kind) if e["metadata"]["labels"][label] == component]
        return found

    @property
    def pods(self) -> list[Object]:
        """The pod templates and pods: `metadata` and `spec` of each."""
        templates = [found["spec"]["template"] for kind in WORKLOADS for found in self.of(kind)]
        for group in self.of("LeaderWorkerSet"):
            parts = group["spec"]["leaderWorkerTemplate"]
            templates += [parts["leaderTemplate"], parts["workerTemplate"]]
        return [*templates, *self.of("Pod")]

    def pod(self, component: str) -> Object:
        """The first pod template of `gateway` or `engine` (in a group the leader's)."""
        label = "app.kubernetes.io/component"
        return next(pod for pod in self.pods if pod["metadata"]["labels"][label] == component)

    def container(self, component: str) -> Object:
        """The only container of a component's pod."""
        (found,) = self.pod(component)["spec"]["containers"]
        return cast("Object", found)

    @property
    def settings_text(self) -> str:
        """The settings file that both programs read."""
        (found,) = [e for e in self.of("ConfigMap") if e["metadata"]["name"].endswith("-settings")]
        return cast("str", found["data"]["settings.yaml"])


@cache
def render_file(name: str, version: str = "1.34.0") -> Rendered:
    """Render the chart with one of `FILES` for a Kubernetes release."""
    file = FILES[name]
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    if file is not None:
        values = _merged(values, yaml.safe_load(file.read_text("utf-8")))
    arguments = [] if file is None else ["--values", str(file)]
    done = _template(arguments, version, "")
    assert done.returncode == 0, done.stderr
    return Rendered(tuple(_objects(done.stdout)), values)


def render(version: str = "1.34.0", **values: Any) -> Rendered:
    """Render the chart with values that no file has, as nested mappings."""
    done = _template(["--values", "-"], version, json.dumps(values))
    assert done.returncode == 0, done.stderr
    return Rendered(tuple(_objects(done.stdout)), values)


def complaint(**values: Any) -> str:
    """Return helm's error about values that it refuses."""
    done = _template(["--values", "-"], "1.34.0", json.dumps(values))
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


def golden(rendered: Rendered) -> str:
    """What a golden file contains: the manifests.

    Left out is what `test_labels` checks: the labels that every object has. Checksums and texts
    that are files of the chart are replaced by markers; other tests check them.
    """
    objects = [_abbreviated(found) for found in rendered.objects]
    text: str = yaml.dump_all(
        objects, Dumper=_Readable, sort_keys=False, default_flow_style=None, width=100
    )
    return text


class _Readable(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


_Readable.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


def _abbreviated(node: Any, name: str = "") -> Any:
    match node:
        case {"kind": "PrometheusRule", "spec": dict()}:
            return _abbreviated({**node, "spec": "RULES"})
        case dict() if name == "labels":
            return {key: value for key, value in node.items() if key not in STANDARD_LABELS}
        case dict():
            return {key: _abbreviated(value, key) for key, value in node.items()}
        case list():
            return [_abbreviated(value) for value in node]
    if name.endswith((".json", ".py")):
        return "FILE"
    return "SHA256" if name == "checksum/settings" else node


def _template(
    arguments: Sequence[str], version: str, values: str
) -> "subprocess.CompletedProcess[str]":
    fixed = ["template", "sg", str(CHART), "--namespace", "llm", "--kube-version", version]
    return run_helm([*fixed, *arguments], values)


def _objects(text: str) -> Iterator[Object]:
    for document in yaml.load_all(text, yaml.CSafeLoader):
        if document is not None:
            assert isinstance(document, dict)
            yield document


def _merged(below: Object, above: Object) -> Object:
    """Both mappings, `above` winning, as Helm merges values."""
    both = {**below, **above}
    for name in below.keys() & above.keys():
        if isinstance(below[name], dict) and isinstance(above[name], dict):
            both[name] = _merged(below[name], above[name])
    return both
