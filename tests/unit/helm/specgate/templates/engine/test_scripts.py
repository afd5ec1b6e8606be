from tests.unit.helm.chart import CHART, needs_helm, render

pytestmark = needs_helm


def test_the_pod_runs_the_script_that_lies_in_the_chart() -> None:
    rendered = render()

    script = rendered.one("ConfigMap", "sg-specgate-engine-scripts")["data"]["drain.py"]
    container = rendered.container("engine")
    command = container["lifecycle"]["preStop"]["exec"]["command"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert script == (CHART / "files" / "drain.py").read_text(encoding="utf-8")
    assert command[:2] == ["python", f"{mounts['scripts']}/drain.py"]
