"""What `headrace up --detach` says while it waits for the cloud."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.cli import detach

LOADING = {"status": "loading", "moto_loading": {"done": 3, "all": 41}}
FURTHER = {"status": "loading", "moto_loading": {"done": 7, "all": 41}}


def test_each_wait_is_said_once_and_again_only_when_it_gets_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 0.0
    # A slow machine: the second look comes long after several sentences were due.
    looks: list[tuple[float, dict[str, Any] | None]] = [
        (0.0, None),
        (detach.SAY_EVERY_S * 6, None),
        (0.1, None),
        (detach.SAY_EVERY_S, None),
        (0.1, LOADING),
        (detach.SAY_EVERY_S, LOADING),
        (detach.SAY_EVERY_S, LOADING),
        (0.1, FURTHER),
        (detach.SAY_EVERY_S, FURTHER),
        (0.1, {"status": "ok"}),
    ]

    def look(_: Path) -> dict[str, Any] | None:
        nonlocal now_s
        passed_s, status = looks.pop(0)
        now_s += passed_s
        return status

    clock = SimpleNamespace(monotonic_s=lambda: now_s, wait=lambda *_: None)
    monkeypatch.setattr(detach, "SystemClock", lambda: clock)
    monkeypatch.setattr(detach, "health", look)
    child = SimpleNamespace(poll=lambda: None)
    wait = cast("Any", detach)._wait_until_healthy
    assert wait(child, Path(), cast("Any", ())) == {"status": "ok"}
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "starting",
        "loading the state of moto's services: 3 of 41",
        "loading the state of moto's services: 7 of 41",
    ]
