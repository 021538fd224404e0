"""What a function process is started with, as far as it needs no process to see."""

from __future__ import annotations

import shutil
import sys

import pytest

from headrace.services.lambda_.runtime import environment

RUNNING = f"python{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.mark.parametrize(
    ("runtime", "remark"),
    [
        (RUNNING, None),
        ("python3.9", f"python3.9 is declared; {RUNNING} runs it"),
        ("nodejs22.x", None),
        ("nodejs18.x", "nodejs18.x is declared; nodejs22.x runs it"),
        ("provided.al2023", None),
    ],
)
def test_another_version_is_remarked_upon(
    monkeypatch: pytest.MonkeyPatch, runtime: str, remark: str | None
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(environment, "_find_node", lambda found: (found, "22"))
    assert environment.explain_runtime(runtime) == remark
