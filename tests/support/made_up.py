"""Gives the calls of a stack every member that the API's model has, with made-up values, and reads them back.

`Trials.watch` tries each call of a deployment once with all members, asks the reads that fit (`read_whole`), and takes
the change back: the deployment goes on as if nothing had happened. What a service refuses with a made-up value is in
`made_up_refused.json`, which `python -m tests.support.made_up` writes.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import re
import sys
import threading
import time
import types
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StructureShape

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.model import operation_model
from headrace.aws.gateway.dispatch import Gateway
from headrace.moto.dropped_members import TRIED_FILE
from headrace.moto.storage.changes import CHANGES
from headrace.moto.storage.pickles import backends_of
from headrace.services.iam.fidelity import moto_tables
from tests.support.cloud import InProcessCloud
from tests.support.read_back import _leaves
from tests.support.read_whole import Recorded, is_write, unread

REFUSED_FILE = Path(__file__).parent.parent / "api" / "moto" / "made_up_refused.json"
# Strings, in the order in which they are tried against a member's pattern; {} is a number of its own.
_TEXTS = (
    "value-{}", "value{}", "Value{}", "v{}", "{}", "10.{}.0.0/16", "arn:aws:iam::000000000000:role/value-{}",
    "arn:aws:kms:us-east-1:000000000000:key/00000000-0000-0000-0000-{:012}", "00000000-0000-0000-0000-{:012}",
    "arn:aws:sns:us-east-1:000000000000:value-{}", "/value-{}", "value{}@example.com", "s3://value-{}/key",
    "2030-01-01T00:00:00Z", "000000{:06}", "vpc-{:08}", "{{}}", "us-east-1", "true", "1.{}",
)  # fmt: skip
_LEVELS = 5
# Their state is journalled, and cannot be taken back.
_JOURNALLED = frozenset({"lakeformation"})
# A key of a map, and what is below it.
_MADE_UP_KEY = re.compile(r"\.[vV]?(?:alue)?-?\d+(?:\..*)?$")
# They answer once, or change nothing that a read shows.
_TOKENS = re.compile("token|dryrun|requestid", re.IGNORECASE)


@dataclass(slots=True)
class Maker:
    """Makes values of shapes up."""

    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(11))

    def value(self, shape: Shape, level: int = 0) -> Any:
        """Return a value that the model allows."""
        number, limits = next(self.numbers), shape.metadata
        if isinstance(shape, StructureShape):
            if getattr(shape, "is_tagged_union", False):
                name, member = next(iter(shape.members.items()))
                return {name: self.value(member, level + 1)}
            return {
                name: self.value(member, level + 1)
                for name, member in shape.members.items()
                if name in shape.required_members or level < _LEVELS
            }
        if isinstance(shape, ListShape):
            return [self.value(shape.member, level + 1)]
        if isinstance(shape, MapShape):
            return {str(self.value(shape.key)): self.value(shape.value, level + 1)}
        kind = shape.type_name
        if kind == "string":
            return self._text(shape, number)
        if kind in ("integer", "long", "double", "float"):
            least = limits.get("min", 1)
            return min(int(least) + number, int(limits.get("max", least + number)))
        if kind == "boolean":
            return True
        if kind == "timestamp":
            return datetime(2030, 1, 1, 0, 0, number % 60, tzinfo=UTC)
        return b"bytes-%d" % number

    def _text(self, shape: Any, number: int) -> str:
        if shape.enum:
            return str(shape.enum[-1])
        pattern, least = shape.metadata.get("pattern"), int(shape.metadata.get("min", 0))
        most = int(shape.metadata.get("max", 1 << 20))
        for text in _TEXTS:
            made = text.format(number)
            made += "x" * (least - len(made))
            with contextlib.suppress(re.error):
                if len(made) <= most and (not pattern or re.fullmatch(pattern, made)):
                    return made
        return f"value-{number}"


def missing_paths(shape: Any, params: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the paths of the members that a call leaves out, also in the structures that it gives."""
    for name, member in ({} if shape is None else shape.members).items():
        inner = f"{path}.{name}" if path else name
        if name not in params:
            if not _TOKENS.search(name):
                yield inner
        elif isinstance(member, StructureShape) and isinstance(params[name], Mapping):
            yield from missing_paths(member, params[name], inner)


def shape_at(shape: Any, path: str) -> Shape:
    """Return the shape of a member by its path."""
    for name in path.split("."):
        shape = shape.members[name]
    return shape


def put(params: dict[str, Any], path: str, value: Any) -> None:
    """Set a member by its path."""
    *outer, last = path.split(".")
    for name in outer:
        params = params.setdefault(name, {})
    params[last] = value


@dataclass(slots=True)
class Trials:
    """Trials of a deployment's calls.

    Attributes:
        refused: the paths that are left out, by `service Operation`.
        tables: the fidelity tables of moto's services.
        learns: whether `refused` is found out, member by member, instead of taken.
        unseen: the members that no read shows, by `service Operation`; `failed`: what was refused nevertheless.
        dropped: of `unseen`, when it learns: what is nowhere in moto's memory after the call.
    """

    refused: dict[str, list[str]]
    tables: Mapping[str, Any]
    learns: bool = False
    unseen: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    dropped: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    done: set[str] = field(default_factory=set[str])
    calls: list[Recorded] = field(default_factory=list[Recorded])
    is_trying: bool = False

    def watch(self, monkeypatch: Any, cloud: Any) -> None:
        """Try each call that CloudFormation makes from now on."""
        original, lock = Gateway.call, threading.RLock()

        def call(gateway: Any, service: str, operation: str, params: Any, **more: Any) -> Any:
            def run(given: Any) -> Any:
                return original(gateway, service, operation, given, **more)

            # A deployment makes resources on several threads: what they do meanwhile would be taken back, too.
            with lock:
                return answer(gateway, service, operation, params, run)

        def answer(gateway: Any, service: str, operation: str, params: Any, run: Any) -> Any:
            recorded = Recorded(service, operation, dict(params), None)
            name = f"{service} {operation}"
            if not self.is_trying and name not in self.done and self._can_try(recorded):
                self.done.add(name)
                self.is_trying = True
                try:
                    self._try(name, recorded, run, gateway, cloud)
                finally:
                    self.is_trying = False
            recorded.answer = run(params)
            if not self.is_trying:
                self.calls.append(recorded)
            return recorded.answer

        monkeypatch.setattr(Gateway, "call", call)

    def _can_try(self, recorded: Recorded) -> bool:
        return is_write(recorded) and recorded.service not in _JOURNALLED

    def _try(
        self, name: str, recorded: Recorded, run: Callable[[Any], Any], gateway: Any, cloud: Any
    ) -> None:
        shape = operation_model(recorded.service, recorded.operation).input_shape
        paths = list(missing_paths(shape, recorded.params))
        maker = Maker()
        values = {path: maker.value(shape_at(shape, path)) for path in paths}

        def attempt(chosen: list[str]) -> tuple[list[str], str]:
            params = copy.deepcopy(recorded.params)
            for path in chosen:
                put(params, path, copy.deepcopy(values[path]))
            with taken_back(cloud):
                try:
                    answer = run(params)
                except (AwsError, NotImplementedError, KeyError, TypeError, ValueError) as error:
                    return [], f"{type(error).__name__}: {error}"[:300]
                if self.learns and len(chosen) == 1:
                    return [], ""
                tried = Recorded(recorded.service, recorded.operation, params, answer)
                shown = unread(gateway, [tried], self.tables, [*self.calls, tried])
                return shown.get(name, []), ""

        if self.learns:
            self.refused[name] = [path for path in paths if attempt([path])[1]]
            kept = [path for path in paths if path not in self.refused[name]]
            if attempt(kept)[1]:
                # Some exclude each other.
                chosen: list[str] = []
                for path in kept:
                    if attempt([*chosen, path])[1]:
                        self.refused[name].append(path)
                    else:
                        chosen.append(path)
        chosen = [path for path in paths if path not in self.refused.get(name, [])]
        if not chosen:
            return
        missing, refusal = attempt(chosen)
        if refusal:
            self.failed[name] = refusal
        own = tuple(f"{path}." for path in chosen)
        # What the example itself gives is read back after the deployment.
        missing = [path for path in missing if path in chosen or path.startswith(own)]
        if missing:
            self.unseen[name] = sorted({_MADE_UP_KEY.sub("", path) for path in missing})
        if missing and self.learns:
            self._learn_dropped(name, recorded, run, cloud, chosen, values)

    def _learn_dropped(
        self,
        name: str,
        recorded: Recorded,
        run: Callable[[Any], Any],
        cloud: Any,
        chosen: list[str],
        values: Mapping[str, Any],
    ) -> None:
        def memory_after(params: dict[str, Any]) -> Counter[str] | None:
            services: set[str] = set()
            with taken_back(cloud, services), contextlib.suppress(AwsError):
                run(params)
                return Counter(leaf for one in services for leaf in leaves(one)) or None
            return None

        before = memory_after(copy.deepcopy(recorded.params))
        for path in chosen:
            own = [one for one in self.unseen[name] if one == path or one.startswith(f"{path}.")]
            params = copy.deepcopy(recorded.params)
            put(params, path, copy.deepcopy(values[path]))
            after = memory_after(params) if own else None
            if before is None or after is None:
                continue  # it cannot be told
            more, outer = after - before, path.rpartition(".")[0]
            given = {
                _MADE_UP_KEY.sub("", place): value
                for place, value in _leaves({path.rpartition(".")[2]: values[path]})
            }
            for one in own:
                value = given.get(one[len(outer) + 1 :] if outer else one)
                if not _is_in(value, more, list(given.values())):
                    self.dropped.setdefault(name, []).append(one)


def _is_in(value: Any, more: Counter[str], given: list[Any]) -> bool:
    """Return whether moto's memory has a value that it had not without the member."""
    if isinstance(value, bool):
        return more["True"] >= sum(one is True for one in given)
    texts = value if isinstance(value, list) else [value]
    return all(any(str(one) in leaf for leaf in more) for one in texts)


def leaves(package: str) -> Iterator[str]:
    """Yield all plain values in the memory of a service of moto's, as text, each as often as it is there."""
    seen, left = set[int](), list[Any](backends_of(package).values())
    while left:
        one = left.pop()
        if one is None or isinstance(one, str | bytes | int | float):
            yield one.decode("latin1") if isinstance(one, bytes) else str(one)
            continue
        if id(one) in seen or isinstance(one, type | types.ModuleType | types.FunctionType):
            continue
        seen.add(id(one))
        if isinstance(one, Mapping):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set | frozenset | deque):
            left += one
        elif isinstance(one, datetime):
            yield one.isoformat()
        left += getattr(one, "__dict__", {}).values()


@contextlib.contextmanager
def taken_back(cloud: Any, services: set[str] | None = None) -> Iterator[None]:
    """Undo what moto's services keep meanwhile, as after a full disk; note the services in `services`."""
    kept = cloud.cloud.moto._kept
    services = set[str]() if services is None else services
    rows, save = {}, kept.save

    def note(entry: Any, *, with_services: bool = True, frees: bool = False) -> None:
        more, changed = CHANGES.take(with_services=with_services)
        services.update(more)
        rows.update(changed)

    kept.save = note
    try:
        yield
    finally:
        kept.save = save
        if services or rows:
            journalled = bool(kept._journalled & services)
            kept._take_back(services, rows, is_journalled=journalled)
            if kept.must_load_again:
                cloud.cloud.moto._load()
                kept.must_load_again = False


# What has an effect that leaves no mark of its own in moto's memory, or none beside another member.
_HAVE_EFFECTS: dict[str, dict[str, str]] = {
    "apigateway CreateDeployment": dict.fromkeys(
        ("cacheClusterEnabled", "cacheClusterSize", "stageName", "tracingEnabled", "variables"),
        "a setting of the stage of stageName",
    ),
    "apigateway PutRestApi": dict.fromkeys(
        ("failOnWarnings", "mode", "parameters"), "says how the body is taken"
    ),
    "autoscaling CreateLaunchConfiguration": {
        "InstanceId": "the instance whose settings are taken",
        "UserData": "shown decoded",
    },
    "ec2 CreateSubnet": {"AvailabilityZoneId": "the zone by its other name"},
    "events CreateConnection": {
        f"AuthParameters.{outer}.{kind}Parameters.Value": (
            "marked as secret: the connection's secret has it, and no read shows it"
        )
        for outer in ("InvocationHttpParameters", "OAuthParameters.OAuthHttpParameters")
        for kind in ("Body", "Header", "QueryString")
    },
    "glue CreateTable": {"Name": "the name of its TableInput goes first"},
    "iot CreateThing": {"attributePayload.merge": "says how the attributes are taken"},
    "rds CreateDBCluster": {"EnableHttpEndpoint": "of Aurora Serverless alone"},
    "redshift CreateCluster": {"NumberOfNodes": "of a multi-node cluster alone"},
    "s3tables CreateTable": {"metadata": "in the metadata file: test_s3tables.py reads it"},
    "secretsmanager CreateSecret": {
        "SecretBinary": "tests of secrets read it: SecretString goes first"
    },
    "stepfunctions CreateStateMachine": {"publish": "makes a version: tests of versions see it"},
}
# The tables of moto's services declare whole members only.
_INSIDE = "dropped by moto inside a member that it takes"
_ELSEWHERE = "kept: the reads that fit do not show it, or by another name"


def effect_of(name: str, path: str) -> str:
    """Return why a member that leaves no mark is not dropped; "" for one that is."""
    for start, reason in _HAVE_EFFECTS.get(name, {}).items():
        if path == start or path.startswith(f"{start}."):
            return reason
    return "the count of what is beside it" if path.endswith(".Quantity") else ""


def write(results: list[Trials]) -> None:
    """Write `made_up_refused.json`, `not_shown.json` and moto's `tried_members.json`."""
    refused: dict[str, list[str]] = {}
    shown = {name: dict(reasons) for name, reasons in _HAVE_EFFECTS.items()}
    dropped: dict[str, dict[str, list[str]]] = {}
    for trials in results:
        for name, paths in trials.refused.items():
            # Two examples may give a call other members, beside which others are refused.
            if paths:
                refused[name] = sorted({*refused.get(name, []), *paths})
        for name, paths in trials.unseen.items():
            for path in paths:
                reason = effect_of(name, path)
                if not reason and path in trials.dropped.get(name, []) and "." in path:
                    shown.setdefault(name, {})[path] = _INSIDE
                elif not reason and path in trials.dropped.get(name, []):
                    service, operation = name.split()
                    members = dropped.setdefault(service, {}).setdefault(operation, [])
                    members += [path] if path not in members else []
                else:
                    shown.setdefault(name, {})[path] = reason or _ELSEWHERE
    for file, found in (
        (REFUSED_FILE, refused),
        (REFUSED_FILE.with_name("not_shown.json"), shown),
        (TRIED_FILE, dropped),
    ):
        file.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")


def main() -> None:
    """Try every call of the examples' stacks, member by member, and write what comes of it: ten minutes."""
    import tempfile

    import pytest

    from tests.api.cloudformation.test_declared import EXAMPLES, NAMED

    TRIED_FILE.write_text("{}\n")
    results: list[Trials] = []
    for group, example in EXAMPLES.items():
        trials, patches = Trials({}, moto_tables(), learns=True), pytest.MonkeyPatch()
        with (
            tempfile.TemporaryDirectory() as folder,
            InProcessCloud(Path(folder) / "data") as cloud,
        ):
            trials.watch(patches, cloud)
            cfn, body = cloud.client("cloudformation"), {"Resources": example["resources"]}
            cfn.create_stack(StackName=group, TemplateBody=json.dumps(body), **NAMED)
            while (status := _status_of(cfn, group)).endswith("IN_PROGRESS"):
                time.sleep(0.2)
            patches.undo()
        sys.stdout.write(f"{group} {status} {len(trials.done)} calls\n")
        results.append(trials)
    write(results)


def _status_of(cfn: Any, name: str) -> str:
    return str(cfn.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])


if __name__ == "__main__":
    main()
