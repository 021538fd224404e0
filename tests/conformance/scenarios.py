"""Scenarios: calls, the whole answers that AWS gave to them, and where that was written down.

A file is a JSON list of scenarios: `name`, `evidence` (a list of sentences or addresses), `steps`, and `slow` when it
sends many bytes. A step is a call (`call`, an operation; `params`) with its `answer`, or `advance_s`, by which the
clock goes on. An answer has `status` and every member that botocore reads of it, of an error `Error`; only what differs
between any two requests is left out (request ids).

In parameters and answers, `<id 1>` is an identifier that S3 gave: wherever it stands it is the same; `<time>` is any
time. Bytes are `{"bytes": text}`, or `{"repeat": text, "times": n, "end": text}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

Scenario = dict[str, Any]

_PLACEHOLDER = re.compile(r"<(id) (\d+)>")


def load(folder: Path) -> Iterator[Scenario]:
    """Yield the scenarios of all files of a folder; each gets `topic`, the file's name."""
    for path in sorted(folder.glob("*.json")):
        for scenario in json.loads(path.read_text()):
            yield {**scenario, "topic": path.stem}


def parameters(value: Any, known: dict[str, str]) -> Any:
    """Return parameters for boto3: placeholders and bytes put in."""
    if isinstance(value, dict):
        if "bytes" in value:
            return value["bytes"].encode()
        if "repeat" in value:
            return value["repeat"].encode() * value["times"] + value["end"].encode()
        if "time" in value:
            return datetime.fromisoformat(value["time"])
        return {name: parameters(member, known) for name, member in value.items()}
    if isinstance(value, list):
        return [parameters(member, known) for member in value]
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: known[match[0]], value)
    return value


def answer(client: Any, call: str, params: dict[str, Any]) -> dict[str, Any]:
    """Make a call; return its whole answer in the form of `shown`."""
    try:
        got = getattr(client, call)(**params)
    except ClientError as error:
        got = error.response
    return shown(got)


def shown(got: dict[str, Any]) -> dict[str, Any]:
    """Return an answer as scenarios have it, with its own identifiers and times."""
    status = got["ResponseMetadata"]["HTTPStatusCode"]
    members = {name: value for name, value in got.items() if name != "ResponseMetadata"}
    for name in ("RequestId", "HostId"):
        members.get("Error", {}).pop(name, None)
    return {"status": status, **_plain(members)}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(member) for member in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, bytes):
        return value.decode()
    return value.read().decode() if hasattr(value, "read") else value


def differences(wanted: Any, got: Any, known: dict[str, str], path: str = "") -> list[str]:
    """Return what differs, a line each; identifiers that are met for the first time become known."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        if "repeat" in wanted or "bytes" in wanted:
            return []
        lines = [f"{path}/{name}: missing" for name in wanted.keys() - got.keys()]
        lines += [f"{path}/{name}: too much: {got[name]!r}" for name in got.keys() - wanted.keys()]
        for name in wanted.keys() & got.keys():
            lines += differences(wanted[name], got[name], known, f"{path}/{name}")
        return lines
    if isinstance(wanted, dict) and ("repeat" in wanted or "bytes" in wanted):
        expected = parameters(wanted, known).decode()
        return [] if expected == got else [f"{path}: other bytes"]
    if isinstance(wanted, list) and isinstance(got, list):
        if len(wanted) != len(got):
            return [f"{path}: {len(got)} items, not {len(wanted)}"]
        return [
            line
            for number, (one, other) in enumerate(zip(wanted, got, strict=True))
            for line in differences(one, other, known, f"{path}[{number}]")
        ]
    if wanted == "<time>" and isinstance(got, str):
        datetime.fromisoformat(got)
        return []
    if isinstance(wanted, str) and isinstance(got, str) and _PLACEHOLDER.search(wanted):
        return _differing_text(wanted, got, known, path)
    return [] if wanted == got else [f"{path}: {got!r}, not {wanted!r}"]


def _differing_text(wanted: str, got: str, known: dict[str, str], path: str) -> list[str]:
    names = [match[0] for match in _PLACEHOLDER.finditer(wanted)]
    pattern = _PLACEHOLDER.sub("\0", wanted)
    found = re.fullmatch(re.escape(pattern).replace("\0", "(.+)"), got)
    if found is None:
        return [f"{path}: {got!r}, not {wanted!r}"]
    for name, value in zip(names, found.groups(), strict=True):
        if known.setdefault(name, value) != value:
            return [f"{path}: {value!r}, not {known[name]!r}"]
    return []
