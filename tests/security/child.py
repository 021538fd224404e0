"""A program that may freeze or swell, run in a process of its own and watched."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any


def rows_of(module: str, folder: Path, *, silent_s: float) -> list[dict[str, Any]]:
    """Run `python -m module folder` and return the JSON lines it prints.

    It is killed when it prints nothing for `silent_s` seconds; what it had printed is returned.
    """
    command = [sys.executable, "-m", module, str(folder)]
    rows: list[dict[str, Any]] = []
    with (folder.parent / f"{module}.log").open("w") as errors:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert child.stdout is not None
        while True:
            watch = threading.Timer(silent_s, child.kill)
            watch.start()
            line = child.stdout.readline()
            watch.cancel()
            if not line:
                break
            rows.append(json.loads(line))
        child.wait()
        child.stdout.close()
    return rows
