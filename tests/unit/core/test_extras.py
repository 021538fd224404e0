"""The line that installs an extra names where this headrace came from."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from headrace.core import extras

_GIT = {"vcs": "git", "commit_id": "c0ffee"}


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({}, "pip install 'headrace[lint]'"),
        (
            {"url": "file:///home/me/head%20race", "dir_info": {"editable": True}},
            "pip install -e '/home/me/head race[lint]'",
        ),
        ({"url": "file:///src/headrace", "dir_info": {}}, "pip install '/src/headrace[lint]'"),
        (
            {"url": "file:///tmp/headrace-0.1.0-py3-none-any.whl", "archive_info": {}},
            "pip install 'headrace[lint] @ file:///tmp/headrace-0.1.0-py3-none-any.whl'",
        ),
        (
            {"url": "https://example.com/headrace.git", "vcs_info": _GIT},
            "pip install 'headrace[lint] @ git+https://example.com/headrace.git@c0ffee'",
        ),
    ],
)
def test_the_origin_is_in_the_command(origin: dict[str, Any], command: str) -> None:
    assert extras._install_command("lint", origin) == command  # pyright: ignore[reportPrivateUsage]


def test_this_headrace_names_an_origin_or_itself() -> None:
    assert extras.install_command("lint").startswith("pip install ")
    assert "[lint]" in extras.install_command("lint")


def test_firehoses_iceberg_tables_name_no_code_that_runs():
    pytest.importorskip("pyiceberg")
    code = (
        "import headrace.services.firehose.destinations.iceberg_catalog\n"
        "from pyiceberg.table.locations import load_location_provider\n"
        "load_location_provider('x', {'write.py-location-provider.impl': 'builtins.print'})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout == ""
    assert "ValueError: Could not initialize LocationProvider: builtins.print" in run.stderr
