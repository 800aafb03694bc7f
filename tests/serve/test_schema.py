"""The OpenAPI document and the service agree, tried by schemathesis with generated requests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.server import Server

from .conftest import Collection

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("IDCWH_TEST_EXAMPLES", "8"))


def test_generated_requests_get_documented_answers(
    start: Callable[..., Server], collection: Collection, tmp_path: Path
) -> None:
    server = start("--db", collection.copy(tmp_path), "--images", collection.images, "--writable")
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    done = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json", "--checks", checks,
            "--max-examples", str(EXAMPLES), "--phases", "examples,coverage,fuzzing", "--seed", "1", "--no-color",
        ],
        capture_output=True, text=True, check=False, timeout=1000, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
    assert server.process.poll() is None and not [line for line in server.log if "Error" in line]
