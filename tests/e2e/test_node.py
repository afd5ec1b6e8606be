"""The official Node SDKs against the real worker: runs node/sdk.test.mjs with Node's own runner."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.service import MODEL, Service

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

HERE = Path(__file__).parent / "node"
needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not (HERE / "node_modules").is_dir(),
    reason="needs Node.js and its SDKs: make install-node",
)


@needs_node
def test_node_sdks(service: Service) -> None:
    ran = subprocess.run(
        ["node", "--test", "--test-reporter=spec", "sdk.test.mjs"],
        cwd=HERE,
        env={**os.environ, "BASE_URL": f"{service.url}/v1", "MODEL": MODEL},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
