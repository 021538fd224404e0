"""A pytest plug-in that records the requests that tests send to a service, and the answers.

`pytest -p scripts.conformance_seen --conformance Kinesis_20131202=FILE`: see `scripts.conformance`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cbor2
import msgspec
import pytest

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.support.cloud import InProcessCloud

_VARYING = (
    (re.compile(r"\d{20,}"), "…"),
    (re.compile(r"[A-Za-z0-9+/_=-]{60,}"), "…"),
    (re.compile(r"\b[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d [\d:]+ UTC \d{4}"), "…"),
    (re.compile(r"\b1[5-9]\d{8,11}\b"), "…"),
)
_LONGEST_SENTENCE = 220


class Seen:
    """The recorded requests and answers, by action; tests are named `file::function`."""

    def __init__(self, target_prefix: str) -> None:
        self.test = ""
        self._prefix = target_prefix
        self._actions: dict[str, Any] = {}

    def note(self, request: HttpRequest, response: HttpResponse) -> None:
        """Record one exchange; exchanges with other services are ignored."""
        prefix, _, action = request.headers.get("x-amz-target", "").rpartition(".")
        if prefix != self._prefix or not self.test:
            return
        content_type = request.headers.get("content-type", "")
        found = self._actions.setdefault(
            action, {"protocols": {}, "parameters": {}, "errors": {}, "answers": {}, "tests": {}}
        )
        protocol = "CBOR" if "cbor" in content_type else "JSON"
        found["protocols"][protocol] = None
        found["tests"][self.test] = None
        value = _decoded(request.body, content_type)
        is_fine = response.status == 200
        if isinstance(value, dict):
            for path in _paths(value):
                known = found["parameters"].setdefault(path, {"accepted": {}, "refused": {}})
                known["accepted" if is_fine else "refused"][self.test] = None
        if not isinstance(response.body, bytes):
            return
        answer = _decoded(response.body, content_type)
        if is_fine:
            found["answers"].update(dict.fromkeys(_paths(answer)))
        elif isinstance(answer, dict):
            code = str(answer.get("__type", "")).rpartition("#")[2]
            known = found["errors"].setdefault(code, {"sentences": {}, "tests": {}})
            known["tests"][self.test] = None
            sentence = _sentence(str(answer.get("message", answer.get("Message", ""))))
            known["sentences"].setdefault(sentence, None)

    def write(self, path: Path) -> None:
        """Write the recorded exchanges."""
        path.write_text(json.dumps(self._actions, indent=1, sort_keys=True))


def _sentence(text: str) -> str:
    for pattern, instead in _VARYING:
        text = pattern.sub(instead, text)
    return text if len(text) <= _LONGEST_SENTENCE else text[:_LONGEST_SENTENCE] + "…"


def _decoded(body: bytes, content_type: str) -> Any:
    try:
        if "cbor" in content_type:
            return cbor2.loads(body, semantic_decoders={1: lambda value, _: value})
        return msgspec.json.decode(body)
    except (ValueError, msgspec.DecodeError, cbor2.CBORDecodeError, RecursionError):
        return None


def _paths(value: Any, before: str = "") -> Iterator[str]:
    """Yield the paths of a structure's members, such as `StreamModeDetails.StreamMode` and `Records[].Data`."""
    if isinstance(value, dict):
        for name, item in value.items():
            path = f"{before}.{name}" if before else str(name)
            yield path
            yield from _paths(item, path)
    elif isinstance(value, list):
        for item in value:
            yield from _paths(item, f"{before}[]")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the service and the output file."""
    parser.addoption(
        "--conformance",
        help="PREFIX=FILE: write the recorded exchanges of the service with that target prefix",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Record the requests of every in-process cloud."""
    folder = config.getoption("--conformance")
    if not folder:
        return
    prefix, _, path = str(folder).partition("=")
    seen = Seen(prefix)
    handle = InProcessCloud.handle

    def noting(cloud: InProcessCloud, request: HttpRequest) -> HttpResponse:
        response = handle(cloud, request)
        seen.note(request, response)
        return response

    setattr(InProcessCloud, "handle", noting)  # noqa: B010 - type checkers see another signature
    config.pluginmanager.register(_Watch(seen, Path(path)))


class _Watch:
    def __init__(self, seen: Seen, path: Path) -> None:
        self._seen = seen
        self._path = path

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._seen.test = nodeid.partition("[")[0].removeprefix("tests/")

    def pytest_runtest_logfinish(self) -> None:
        self._seen.test = ""

    def pytest_sessionfinish(self) -> None:
        self._seen.write(self._path)
