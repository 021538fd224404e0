"""A job's log `controller`: what happens to the job, a line each, in the form of EMR's."""

from __future__ import annotations

from pathlib import Path

from headrace.core.values import moment

CONTROLLER = "controller"


def note(controller: Path, now_ms: int, text: str) -> None:
    """Add a line to a job's own log, in the form of EMR's. Raises OSError."""
    with controller.open("a", errors="replace") as file:
        file.write(f"{moment(now_ms):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + f"Z INFO {text}\n")


def note_in(folder: Path, now_ms: int, text: str) -> None:
    """Add a line to the log `controller` of the job in a folder, if it has one. Raises OSError."""
    controller = folder / CONTROLLER
    if controller.is_file():
        note(controller, now_ms, text)
