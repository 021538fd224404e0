"""The line that installs an extra names where this headrace came from."""

from __future__ import annotations

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
