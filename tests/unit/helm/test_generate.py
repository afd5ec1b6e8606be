import json
import re
import subprocess
import sys
from typing import Any

import yaml
from pydantic import BaseModel

from helm.generate import readme_table, schema_json, values_yaml
from helm.values import ChartValues
from tests.unit.helm.chart import CHART, ROOT

SCHEMA = json.loads(schema_json())


def leaves(node: Any, prefix: str = "") -> list[str]:
    """The dotted path of every value in values.yaml."""
    if not isinstance(node, dict) or not node:
        return [prefix.removesuffix(".")]
    return [path for name, below in node.items() for path in leaves(below, f"{prefix}{name}.")]


def objects(node: Any) -> list[dict[str, Any]]:
    """Every schema of an object in a schema."""
    if isinstance(node, list):
        return [found for item in node for found in objects(item)]
    if not isinstance(node, dict):
        return []
    own = [node] if node.get("type") == "object" else []
    return own + [found for below in node.values() for found in objects(below)]


def test_generated_files_are_up_to_date() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "helm.generate", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr


def test_the_values_file_has_the_defaults() -> None:
    written = yaml.safe_load(values_yaml())

    assert ChartValues.model_validate(written) == ChartValues()
    assert written == ChartValues().model_dump(mode="json", exclude={"global_"})


def test_every_value_is_documented() -> None:
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| `([\w.]+)` \| `.*?` \| (.+) \|$", readme, re.MULTILINE))
    paths = leaves(yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8")))
    # A mapping with defaults is one value.
    paths = [path for path in paths if not path.endswith("grafana_dashboard")]

    assert documented.keys() == {*paths, "monitoring.dashboards.labels"}
    assert all(text.endswith(".") for text in documented.values())
    assert readme_table() in readme


def test_the_schema_closes_every_object_or_says_what_a_mapping_holds() -> None:
    found = objects(SCHEMA)

    assert len(found) > 30
    assert all("additionalProperties" in each for each in found)
    named = [each for each in found if "properties" in each]
    assert all(each["additionalProperties"] is False for each in named)


def test_the_schema_knows_the_settings_but_not_what_the_chart_sets() -> None:
    gateway = SCHEMA["$defs"]["GatewaySettings"]["properties"]
    engine = SCHEMA["$defs"]["EngineSettings"]["properties"]

    assert {"admission", "drain", "pacing", "workers"} <= gateway.keys()
    assert {"model", "vllm", "speculation"} <= engine.keys()
    assert not {"host", "port", "supervisor", "tracing"} & gateway.keys()
    assert not {"host", "port", "uds", "cache_dir"} & engine.keys()
    assert SCHEMA["$defs"].keys().isdisjoint({"SupervisorSettings", "TracingSettings"})


def test_every_group_of_values_refuses_unknown_names() -> None:
    def groups(model: type[BaseModel]) -> list[type[BaseModel]]:
        below = [type(field.default) for field in model.model_fields.values()]
        inner = [group for kind in below if issubclass(kind, BaseModel) for group in groups(kind)]
        return [model, *inner]

    assert all(group.model_config["extra"] == "forbid" for group in groups(ChartValues))
