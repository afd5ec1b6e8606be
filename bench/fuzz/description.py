"""Runs schemathesis against the gateway's OpenAPI description, in a process of its own."""

import asyncio
import json
import sys
from pathlib import Path

from bench.fuzz.findings import Finding, Findings, Kind

_TAG = "schemathesis"
_CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_headers_conformance,response_schema_conformance,negative_data_rejection,"
    "unsupported_method,allow_header_conformance,ignored_auth"
)
"""All that apply; valid data may be refused, as the worker has required fields of its own."""
_OUTPUT_CHARACTERS = 4_000


async def play_description(
    port: int, folder: Path, *, key: str, seed: int, examples: int
) -> Findings:
    """Test every operation with values at every bound and `examples` random ones."""
    report = folder / "schemathesis.json"
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).with_name("schemathesis")), "run"),
        f"http://127.0.0.1:{port}/openapi.json",
        *("--header", f"Authorization: Bearer {key}"),
        *("--phases", "coverage,fuzzing", "--checks", _CHECKS, "--continue-on-failure"),
        *("--max-examples", str(examples), "--seed", str(seed), "--no-shrink"),
        *("--suppress-health-check", "all", "--generation-database", "none"),
        *("--report", "json", "--report-json-path", str(report), "--no-color"),
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return _read(report, output.decode(errors="replace"))


def _read(report: Path, output: str) -> Findings:
    findings = Findings()
    if not report.exists():
        findings.add(Finding("crash", _TAG, output[-_OUTPUT_CHARACTERS:]))
        return findings
    found = json.loads(report.read_text(encoding="utf-8"))
    findings.cases = found["test_cases"]["generated"]
    for failure in found["failures"]:
        kind: Kind = "own_5xx" if failure["type"] == "ServerError" else "wrong_answer"
        what = f"{failure['title']} on {failure['operations']}: {output[-_OUTPUT_CHARACTERS:]}"
        findings.add(Finding(kind, _TAG, what))
    for error in found["errors"]:
        findings.add(Finding("crash", _TAG, str(error)))
    return findings
