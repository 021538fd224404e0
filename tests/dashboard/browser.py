"""One page of a headless Chromium, driven by tests/clients/js/dashboard.mjs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Self

JS = Path(__file__).parents[1] / "clients" / "js"


class Page:
    """A page. A context manager; each method fails the test when the browser refuses."""

    def __init__(self, chromium: str) -> None:
        self._process = subprocess.Popen(
            ["node", "dashboard.mjs", chromium],
            cwd=JS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()

    def do(self, command: str, **values: Any) -> Any:
        """Run a command of the driver and return its value."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"do": command, **values}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, "the browser's driver ended"
        answer = json.loads(line)
        assert "error" not in answer, f"{command} {values}: {answer['error']}"
        return answer["value"]

    def visit(self, url: str, text: str) -> None:
        """Open an address and wait until the page shows a text."""
        self.do("open", url="about:blank")
        self.do("open", url=url)
        self.do("wait", text=text)

    def text(self) -> str:
        """Return what the page shows."""
        return self.do("eval", code="document.body.innerText")
