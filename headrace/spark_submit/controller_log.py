"""Writes a job's log `controller`, which has one line for each event of the job, in EMR's format."""

from __future__ import annotations

from pathlib import Path

from headrace.core.values import moment

CONTROLLER = "controller"


def note(controller: Path, now_ms: int, text: str) -> None:
    """Add a line to a controller log, in EMR's format. Raises OSError."""
    with controller.open("a", errors="replace") as file:
        file.write(f"{moment(now_ms):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + f"Z INFO {text}\n")


def note_in(folder: Path, now_ms: int, text: str) -> None:
    """Add a line to the log `controller` of the job in a folder, if it has one. Raises OSError."""
    controller = folder / CONTROLLER
    if controller.is_file():
        note(controller, now_ms, text)
