"""A real browser: a headless Chromium, web sites of several origins for it, and AWS's SDK for its pages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import pytest

JS = Path(__file__).parents[1] / "clients" / "js"
# With it a missing Chromium is a failure: CI must not pass without having looked.
REQUIRED = "HEADRACE_REQUIRE_CHROMIUM"
# Names that Chromium is told lead to this machine, as a hostile name server would.
NAMES = ("friend.test", "evil.test", "rebind.test")


def find_chromium() -> str:
    """Return the path of a Chromium. Skips the test without one, or fails it where REQUIRED is set."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found is not None:
            return found
    sentence = (
        "Chromium is needed for the browser tests; install it (Debian: apt-get install chromium)"
    )
    if os.environ.get(REQUIRED):
        pytest.fail(sentence)
    pytest.skip(sentence)


def bundle_sdk(folder: Path) -> bytes:
    """Return tests/clients/js/sdk_page.mjs and AWS's SDK as one script for a page."""
    script = folder / "sdk.js"
    subprocess.run(
        ["node_modules/.bin/esbuild", "sdk_page.mjs", "--bundle", "--format=esm",
         "--platform=browser", f"--outfile={script}", "--log-level=warning"],
        cwd=JS, check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return script.read_bytes()


class Driver:
    """A program of tests/clients/js that drives a browser: a line of JSON for each command. A context manager."""

    def __init__(self, program: str, *arguments: str) -> None:
        # Chromium's socket lies in the folder for temporary files, and its path may have 107 characters.
        environment = {**os.environ, "TMPDIR": "/tmp"}
        self._process = subprocess.Popen(
            ["node", program, *arguments],
            cwd=JS, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()

    def ask(self, **command: Any) -> dict[str, Any]:
        """Give the program a command, and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(command), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, "the browser's driver ended"
        return json.loads(line)


class Browser(Driver):
    """A headless Chromium that opens one page after the other."""

    def __init__(self, chromium: str, profile: Path) -> None:
        rules = ",".join(f"MAP {name} 127.0.0.1" for name in NAMES)
        super().__init__("browser.mjs", chromium, rules, str(profile))

    def open(self, url: str) -> dict[str, Any]:
        """Open a page and return what became of it: see tests/clients/js/browser.mjs."""
        return self.ask(url=url)


class Sites:
    """Web sites on one port of this machine; which is meant, the name in the URL says.

    Attributes:
        port: where they are.
        pages: content type and bytes by path; every site has them all.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.pages: dict[str, tuple[str, bytes]] = {}

    def html(self, path: str, script: str) -> None:
        """Add a page that runs a script."""
        text = f'<!doctype html><body><script type="module">{script}</script>'
        self.pages[path] = ("text/html", text.encode())

    def url(self, name: str, path: str) -> str:
        """Return the address of a page on the site `name`."""
        return f"http://{name}:{self.port}{path}"


@contextmanager
def sites() -> Iterator[Sites]:
    """Serve web sites."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, body = served.pages.get(self.path.partition("?")[0], ("text/plain", b"none"))
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Sites(server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
