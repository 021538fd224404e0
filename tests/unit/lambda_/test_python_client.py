"""The process of a Python function: a botocore older than AWS_ENDPOINT_URL asks this cloud."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SESSION = """
class Session:
    def create_client(
        self, service_name, region_name=None, api_version=None, use_ssl=True, verify=None, endpoint_url=None
    ):
        return endpoint_url
"""
PROGRAM = """
import sys
from headrace.services.lambda_.runtime.python_client import OldBotocoreFinder
sys.meta_path.insert(0, OldBotocoreFinder("http://cloud"))
sys.path.insert(0, sys.argv[1])
from botocore.session import Session
print(
    Session().create_client("sqs"),
    Session().create_client("sqs", endpoint_url="http://own"),
    Session().create_client("sqs", None, None, True, None, "http://own"),
)
"""


@pytest.mark.parametrize(
    ("version", "endpoints"),
    [
        ("1.12.0", "http://cloud http://own http://own"),
        ("1.29.165", "http://cloud http://own http://own"),
        ("1.31.0", "None http://own http://own"),
        ("2.0.0", "None http://own http://own"),
    ],
)
def test_clients_of_an_old_botocore_ask_the_cloud(
    tmp_path: Path, version: str, endpoints: str
) -> None:
    package = tmp_path / "botocore"
    package.mkdir()
    (package / "__init__.py").write_text(f"__version__ = {version!r}\n")
    (package / "session.py").write_text(SESSION)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == endpoints.split()
