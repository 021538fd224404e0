"""Scenarios: calls, the whole answers that AWS gave to them, and where that was written down.

A file is a JSON list of scenarios: `name`, `evidence` (a list of sentences or addresses), `steps`, and `slow` when it
takes long. The steps:

- A call: `call` (an operation, as boto3 names its method), `params`, `service`, `account` (or an access key, with the
  `token` of a session), `region` and `style` (of S3's addresses: `virtual`) where they are others, and its `answer`:
  `status` and every member that botocore reads of it, of an error `Error`. Only what differs between any two requests
  is left out (request ids). Without `answer` it prepares what the evidence does not show, and must succeed. `keep`,
  such as `{"arn 1": "Role.Arn"}`, keeps members of such an answer for later steps.
- A call with `until`, a part of an answer: it is made again while time goes on until its answer has that part; then
  `answer`, if there is one, is compared. `every_s`: time goes on by so much each time, not by a second.
- A call with `part`, where only a part of the answer was recorded: that part is compared; `{"among": item}` is a list
  that has such an item.
- A request: `http` with `method`, `path`, `query`, `headers`, `body`, or a `url` instead of the path, the query and
  the host, and an `answer` of `status`, `headers` (those that are compared; null: it has none) and `body`.
- A request to an address that was signed in advance: `presign` (an operation of S3), `params`, `signature` (`s3` or
  `s3v4`), `addressing` (`path` or `virtual`), `expires_s`; it is used `late_s` later; `replace`, two texts, changes
  it; `http` and `answer` as above. Such scenarios are played with signatures verified.
- `advance_s`: the clock goes on by so much.
- `machine`: an execution of a state machine and its history, `comparison`: an operator of a Choice; see `executions`.
- `by query`, in a call of SQS: what differs of the step by the query protocol, beside the members of errors.

In parameters and answers, `<id 1>` is something that AWS gave: wherever it stands it is the same. `<arn 1>` must be an
ARN, `<uuid 1>` a UUID, `<name 1>` a word, `<digits 1>` a number's digits, `<base64 1>` bytes, which
`{"base64": "<base64 1>"}` gives back. Of what differs from place to place, `<time>` is any time, `<number>` any number,
`<text>` any text.
Bytes are `{"bytes": text}`, `{"base64": text}`, `{"repeat": text, "times": n, "end": text}` or, of an archive,
`{"zip": {file: text}}`; a time is `{"time": text}`. In answers `{"json": value}` is a text of that JSON,
`{"xml": value}` one of XML whose elements are members (those that are there twice, lists), `{"base64 of": value}` one
in base64, `{"any order": list}` a list in any order, and `{"bytes of length": n}` any so many bytes.
"""

from __future__ import annotations

import base64
import io
import json
import re
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.conformance.executions import expanded
from tests.support.clients import SQS_BY_QUERY

Scenario = dict[str, Any]

_KINDS = {
    "id": r".+",
    "arn": r"arn:[^:]*:[^:]+:[^:]*:[^:]*:.+",
    "uuid": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "name": r"[\w.-]+",
    "digits": r"\d+",
    "base64": r"[A-Za-z0-9+/]+=*",
}
_PLACEHOLDER = re.compile(rf"<({'|'.join(_KINDS)}) (\d+)>")
_LONGEST_WAIT_ROUNDS = 1000
# Names of LocalStack's tests of SQS's JSON protocol.
_BY_JSON = re.compile(r"\[sqs(?=[-\]].+/services/sqs/)")
_WITHOUT_DETAIL = {"delete_message_batch", "change_message_visibility_batch"}


@dataclass(frozen=True, slots=True)
class World:
    """Where scenarios are played.

    Attributes:
        service: the service that a call is for when its step names none.
        client: gives a boto3 client of a service, in an `account` and a `region`, with a session's `token`; it must
            check no parameters and never try again.
        advance: lets the clock go on by so many seconds.
        send: answers a raw request; the body comes back as bytes.
        presign: signs an address; takes an operation of S3, its parameters and a step.
    """

    service: str
    client: Callable[..., Any]
    advance: Callable[[float], None]
    send: Callable[[HttpRequest], HttpResponse]
    presign: Callable[[str, dict[str, Any], dict[str, Any]], str] | None = None


def load(folder: Path) -> Iterator[Scenario]:
    """Yield the scenarios of all files of a folder; each gets `topic`, the file's name.

    Those of SQS that AWS was recorded to answer by both of its protocols come twice.
    """
    for path in sorted(folder.glob("*.json")):
        for scenario in json.loads(path.read_text()):
            scenario["steps"] = list(expanded(scenario["steps"]))
            yield {**scenario, "topic": path.stem}
            if any(_BY_JSON.search(sentence) for sentence in scenario["evidence"]):
                yield {**_by_query(scenario), "topic": path.stem}


def _by_query(scenario: Scenario) -> Scenario:
    """Return the twin of a scenario of SQS that calls by forms, with the answers that were recorded then."""
    evidence = [_BY_JSON.sub("[sqs_query", sentence) for sentence in scenario["evidence"]]
    steps = [_step_by_query(step) for step in scenario["steps"]]
    return {
        **scenario,
        "name": f"{scenario['name']} by query",
        "evidence": evidence,
        "steps": steps,
    }


def _step_by_query(step: dict[str, Any]) -> dict[str, Any]:
    call = step.get("call", "create_queue")
    if step.get("service", "sqs") != "sqs" or call == "create_queue":
        return step  # LocalStack's tests make queues by JSON in both variants.
    by_query = {**step, "service": SQS_BY_QUERY}
    if "Error" in step.get("answer", {}):
        error = {**step["answer"]["Error"], "Detail": None}
        del error["QueryErrorCode"]
        if call in _WITHOUT_DETAIL:
            del error["Detail"]
        by_query["answer"] = {"status": step["answer"]["status"], "Error": error}
    if "MessageSystemAttributeNames" in step.get("params", {}):  # a younger member
        names = step["params"]["MessageSystemAttributeNames"]
        by_query["params"] = {"AttributeNames": names, **step["params"]}
        del by_query["params"]["MessageSystemAttributeNames"]
    return by_query | step.get("by query", {})


def cases(scenarios: list[Scenario]) -> list[Any]:
    """Return pytest's parameters for scenarios: named, and marked when slow."""
    return [
        pytest.param(
            scenario,
            id=f"{scenario['topic']}: {scenario['name']}",
            marks=[pytest.mark.slow] if scenario.get("slow") else [],
        )
        for scenario in scenarios
    ]


def calls(scenario: Scenario, service: str) -> list[str]:
    """Return the calls of a scenario to a service."""
    return [
        step["call"]
        for step in scenario["steps"]
        if "call" in step and step.get("service", service) == service
    ]


def check_told(scenarios: list[Scenario], at_least: int) -> None:
    """Fail when names are used twice, a scenario says not whence it is or does nothing, or there are too few."""
    names = [(scenario["topic"], scenario["name"]) for scenario in scenarios]
    assert len(set(names)) == len(names) >= at_least
    for scenario in scenarios:
        compared = [step for step in scenario["steps"] if "answer" in step or "part" in step]
        assert scenario["evidence"], scenario["name"]
        assert compared, scenario["name"]


# --- playing ----------------------------------------------------------------------------------


def play(scenario: Scenario, world: World) -> list[str]:
    """Make a scenario's calls; return what was answered differently, a line each."""
    known: dict[str, str] = {}
    wrong: list[str] = []
    for number, step in enumerate(scenario["steps"]):
        if "advance_s" in step:
            world.advance(step["advance_s"])
            continue
        got = _until(step, world, known) if "until" in step else _asked(step, world, known)
        title = step.get("call", "http")
        if "part" in step and not _has(got, step["part"], known):
            wrong.append(f"{number} {title}: {got} has no {step['part']}")
        if "answer" in step:
            lines = differences(step["answer"], got, known)
            wrong += [f"{number} {title}{line}" for line in lines]
        elif isinstance(got["status"], int) and got["status"] >= 300:  # no status of an execution
            wrong.append(f"{number} {title}: {got}")
        for name, path in step.get("keep", {}).items():
            known[f"<{name}>"] = str(member(got, path))
    return wrong


def _asked(step: dict[str, Any], world: World, known: dict[str, str]) -> dict[str, Any]:
    if "presign" in step:
        assert world.presign is not None
        url = world.presign(step["presign"], parameters(step["params"], known), step)
        url = url.replace(*step.get("replace", ("?", "?")), 1)
        world.advance(step.get("late_s", 0))
        step = {**step, "http": {**step["http"], "url": url}}
    if "http" in step:
        return _http_answer(step, world, known)
    names = ("account", "region", "token", "style")
    place = {name: parameters(step[name], known) for name in names if name in step}
    client = world.client(step.get("service", world.service), **place)
    return answer(client, step["call"], parameters(step.get("params", {}), known))


def _until(step: dict[str, Any], world: World, known: dict[str, str]) -> dict[str, Any]:
    got: dict[str, Any] = {}
    for _ in range(_LONGEST_WAIT_ROUNDS):
        got = _asked(step, world, known)
        if _has(got, step["until"], known):
            return got
        far_s = step.get("every_s", 0)
        world.advance(far_s or 1)
        time.sleep(0.1 if far_s else 0.005)  # what runs in other threads gets its turn
    raise AssertionError(f"{step['call']} was never answered with {step['until']}, but {got}")


def _http_answer(step: dict[str, Any], world: World, known: dict[str, str]) -> dict[str, Any]:
    asked = parameters(step["http"], known)
    url = urlsplit(asked.get("url", ""))
    headers = {"host": url.netloc} if url.netloc else {}
    headers |= {name.lower(): value for name, value in asked.get("headers", {}).items()}
    body = asked.get("body", b"")
    got = world.send(
        HttpRequest(
            asked["method"],
            asked.get("path", url.path or "/"),
            asked.get("query", url.query),
            headers,
            body.encode() if isinstance(body, str) else body,
        )
    )
    assert isinstance(got.body, bytes)
    # What the server's writer adds.
    headers = {"content-length": str(len(got.body))}
    headers |= {name.lower(): value for name, value in got.headers}
    wanted = step.get("answer", {}).get("headers", {})
    return {
        "status": got.status,
        **({"headers": {name: headers.get(name.lower()) for name in wanted}} if wanted else {}),
        **({"body": _text_of(got.body)} if "body" in step.get("answer", {}) else {}),
    }


def _has(got: Any, part: Any, known: dict[str, str]) -> bool:
    if isinstance(part, dict) and part.keys() == {"among"} and isinstance(got, list):
        return any(_has(one, part["among"], known) for one in got)
    if isinstance(part, dict) and part.keys() == {"json"} and isinstance(got, str):
        return bool(json.loads(got) == parameters(part["json"], known))
    if isinstance(part, dict) and isinstance(got, dict):
        return all(name in got and _has(got[name], part[name], known) for name in part)
    if isinstance(part, list) and isinstance(got, list):
        pairs = zip(part, got, strict=False)
        return len(part) == len(got) and all(_has(other, one, known) for one, other in pairs)
    return parameters(part, known) == got


def member(value: Any, path: str) -> Any:
    """Return the member of a path such as `Shards[0].ShardId`; texts of JSON have members too."""
    for name in re.findall(r"[^.\[\]]+", path):
        value = json.loads(value) if isinstance(value, str) else value
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value


def parameters(value: Any, known: dict[str, str]) -> Any:
    """Return parameters for boto3: placeholders and bytes put in."""
    if isinstance(value, dict):
        if isinstance(text := value.get("base64"), str) and text in known:
            value = {"base64": known[text]}
        special = _special(value)
        if special is not None:
            return special
        return {name: parameters(one, known) for name, one in value.items()}
    if isinstance(value, list):
        return [parameters(one, known) for one in value]
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: known[match[0]], value)
    return value


def _special(value: dict[str, Any]) -> Any:
    """Return what a form such as `{"bytes": text}` stands for, or None when it is none."""
    match value:
        case {"bytes": str(text)} if len(value) == 1:
            return text.encode()
        case {"base64": str(text)} if len(value) == 1:
            return base64.b64decode(text)
        case {"repeat": str(text), "times": int(times), "end": str(end)}:
            return text.encode() * times + end.encode()
        case {"time": str(text)} if len(value) == 1:
            return datetime.fromisoformat(text)
        case {"zip": dict(files)} if len(value) == 1:
            return _archive(files)
        case _:
            return None


def _archive(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            info = zipfile.ZipInfo(name)  # of 1980, so that the bytes are the same every time
            info.external_attr = (0o755 if text.startswith("#!") else 0o644) << 16
            archive.writestr(info, text)
    return out.getvalue()


def answer(client: Any, call: str, params: dict[str, Any]) -> dict[str, Any]:
    """Make a call; return its whole answer in the form of `shown`."""
    try:
        return shown(getattr(client, call)(**params))
    except ClientError as error:
        return shown(dict(error.response))


def shown(got: dict[str, Any]) -> dict[str, Any]:
    """Return an answer as scenarios have it, with its own identifiers and times."""
    status = got["ResponseMetadata"]["HTTPStatusCode"]
    members = {name: value for name, value in got.items() if name != "ResponseMetadata"}
    for name in ("RequestId", "HostId"):
        members.get("Error", {}).pop(name, None)
    return {"status": status, **_plain(members)}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, bytes):
        return _text_of(value)
    return value.read().decode() if hasattr(value, "read") else value


def _text_of(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


# --- comparing --------------------------------------------------------------------------------


def differences(wanted: Any, got: Any, known: dict[str, str], path: str = "") -> list[str]:
    """Return what differs, a line each; identifiers that are met for the first time become known."""
    if isinstance(wanted, dict):
        found = _special_differences(wanted, got, known, path)
        if found is not None:
            return found
    if isinstance(wanted, dict) and isinstance(got, dict):
        wanted = {
            _PLACEHOLDER.sub(lambda match: known.get(match[0], match[0]), name): one
            for name, one in wanted.items()
        }
        lines = [f"{path}/{name}: missing" for name in wanted.keys() - got.keys()]
        lines += [f"{path}/{name}: too much: {got[name]!r}" for name in got.keys() - wanted.keys()]
        for name in wanted.keys() & got.keys():
            lines += differences(wanted[name], got[name], known, f"{path}/{name}")
        return lines
    if isinstance(wanted, list) and isinstance(got, list):
        if len(wanted) != len(got):
            return [f"{path}: {len(got)} items, not {len(wanted)}"]
        return [
            line
            for number, (one, other) in enumerate(zip(wanted, got, strict=True))
            for line in differences(one, other, known, f"{path}[{number}]")
        ]
    if isinstance(wanted, str):
        return _differing_text(wanted, got, known, path)
    return [] if wanted == got else [f"{path}: {got!r}, not {wanted!r}"]


def _special_differences(
    wanted: dict[str, Any], got: Any, known: dict[str, str], path: str
) -> list[str] | None:
    if list(wanted) == ["json"]:
        return differences(wanted["json"], json.loads(got), known, path)
    if list(wanted) == ["xml"]:
        return differences(wanted["xml"], _of_xml(got), known, path)
    if list(wanted) == ["base64 of"]:
        return differences(wanted["base64 of"], base64.b64decode(got).decode(), known, path)
    if list(wanted) == ["any order"]:
        return _differing_set(wanted["any order"], got, known, path)
    if list(wanted) == ["bytes of length"]:
        return [] if _has_length(got, wanted["bytes of length"]) else [f"{path}: {got!r}"]
    expected = _special(wanted)
    if not isinstance(expected, bytes):
        return None
    return [] if _text_of(expected) == got else [f"{path}: other bytes"]


def _has_length(got: str, length: int) -> bool:
    """Return whether bytes, which `_text_of` shows as text or in base64, are so many."""
    try:
        return len(base64.b64decode(got, validate=True)) == length or len(got.encode()) == length
    except ValueError:
        return len(got.encode()) == length


def _of_xml(text: str) -> Any:
    root = ElementTree.fromstring(text)
    return {root.tag.rpartition("}")[2]: _of_element(root)}


def _of_element(element: ElementTree.Element) -> Any:
    if not len(element):
        return element.text or ""
    members: dict[str, Any] = {}
    for child in element:
        name, value = child.tag.rpartition("}")[2], _of_element(child)
        if name in members:
            before = members[name]
            members[name] = [*(before if isinstance(before, list) else [before]), value]
        else:
            members[name] = value
    return members


def _differing_set(wanted: list[Any], got: Any, known: dict[str, str], path: str) -> list[str]:
    if not isinstance(got, list) or len(got) != len(wanted):
        return [f"{path}: {got!r}, not {len(wanted)} items"]
    rest = list(got)
    for one in wanted:
        for other in rest:
            tried = dict(known)
            if not differences(one, other, tried):
                known.update(tried)
                rest.remove(other)
                break
        else:
            return [f"{path}: none of {rest!r} is {one!r}"]
    return []


def _differing_text(wanted: str, got: Any, known: dict[str, str], path: str) -> list[str]:
    different = [f"{path}: {got!r}, not {wanted!r}"]
    if wanted == "<number>":
        return [] if isinstance(got, (int, float)) and not isinstance(got, bool) else different
    if not isinstance(got, str):
        return different
    if wanted == "<text>":
        return []
    if wanted == "<time>":
        return [] if _is_time(got) else different
    matches = list(_PLACEHOLDER.finditer(wanted))
    ends = [0, *(match.end() for match in matches)]
    starts = [*(match.start() for match in matches), len(wanted)]
    pieces = [wanted[end:start] for end, start in zip(ends, starts, strict=True)]
    pattern = re.escape(pieces[0])
    for match, piece in zip(matches, pieces[1:], strict=True):
        pattern += f"({_KINDS[match[1]]})" + re.escape(piece)
    found = re.fullmatch(pattern, got, re.DOTALL)
    if found is None:
        return different
    for match, value in zip(matches, found.groups(), strict=True):
        if known.setdefault(match[0], value) != value:
            return [f"{path}: {value!r}, not {known[match[0]]!r}"]
    return []


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
