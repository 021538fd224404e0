"""One page of a headless Chromium, driven by tests/clients/js/dashboard.mjs."""

from __future__ import annotations

from typing import Any

from tests.security.browser import Driver


class Page(Driver):
    """A page. Each method fails the test when the browser refuses."""

    def __init__(self, chromium: str) -> None:
        super().__init__("dashboard.mjs", chromium)

    def do(self, command: str, **values: Any) -> Any:
        """Run a command of the driver and return its value."""
        answer = self.ask(do=command, **values)
        assert "error" not in answer, f"{command} {values}: {answer['error']}"
        return answer["value"]

    def visit(self, url: str, text: str) -> None:
        """Open an address and wait until the page shows a text."""
        self.do("open", url=url)
        self.do("wait", text=text)

    def text(self) -> str:
        """Return what the page shows."""
        return self.do("eval", code="document.body.innerText")
