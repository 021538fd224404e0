"""Gives the calls of a stack every member that the API's model has, with made-up values, and reads them back.

`Trials.watch` tries each call of a deployment once with all members, asks the reads that fit (`read_whole`), and takes
the change back: the deployment goes on as if nothing had happened. What a service refuses with a made-up value is in
`made_up_refused.json`, which `python -m tests.support.made_up` writes.

Some members take effect only without others, or when a member that says a kind has another value: a member that is
not shown beside all others is tried again beside the example's, without each of them that is optional, and with their
other kinds. A member that then is not shown needs a reason in `not_shown.json`, which says where its value is; without
one it is dropped, as its callers see it.
"""

from __future__ import annotations

import contextlib
import copy
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import operation_model
from headrace.aws.gateway.dispatch import Gateway
from headrace.moto.storage.changes import Taken
from headrace.moto.without_effect import TRIED_FILE, dropped_members
from headrace.services.iam.answers import moto_tables
from tests.support.cloud import InProcessCloud
from tests.support.made_up_values import (
    MADE_UP_KEY,
    Maker,
    missing_paths,
    paths_in,
    put,
    shape_at,
    surroundings,
)
from tests.support.read_whole import Recorded, is_write, unread

_FOLDER = Path(__file__).parent.parent / "api" / "moto"
REFUSED_FILE = _FOLDER / "made_up_refused.json"
NOT_SHOWN: dict[str, dict[str, str]] = json.loads((_FOLDER / "not_shown.json").read_text())
_ANY = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
_POLICY = {"Version": "2012-10-17", "Statement": [_ANY]}
_SERVICE = {"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}}
_TABLE: dict[str, Any] = {
    "AttributeDefinitions": [{"AttributeName": "k", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "k", "KeyType": "HASH"}],
    "BillingMode": "PAY_PER_REQUEST",
    "TimeToLiveSpecification": {"AttributeName": "t", "Enabled": True},
}
# Types of moto's services that are written by hand, and that no other example has.
CODED: dict[str, Any] = {
    name: {"Type": f"AWS::{kind}", "Properties": properties}
    for name, kind, properties in (
        ("Queue", "SQS::Queue", {"QueueName": "q"}),
        ("Topic", "SNS::Topic", {"TopicName": "t"}),
        (
            "Subscription",
            "SNS::Subscription",
            {
                "TopicArn": {"Ref": "Topic"},
                "Protocol": "sqs",
                "Endpoint": {"Fn::GetAtt": ["Queue", "Arn"]},
            },
        ),
        (
            "Rule",
            "Events::Rule",
            {
                "Name": "r",
                "ScheduleExpression": "rate(1 day)",
                "Targets": [{"Id": "a", "Arn": {"Fn::GetAtt": ["Queue", "Arn"]}}],
            },
        ),
        ("Parameter", "SSM::Parameter", {"Name": "p", "Type": "String", "Value": "v"}),
        (
            "Key",
            "KMS::Key",
            {
                "KeyPolicy": {
                    **_POLICY,
                    "Statement": [{**_ANY, "Action": "kms:*", "Principal": "*"}],
                }
            },
        ),
        ("Alias", "KMS::Alias", {"AliasName": "alias/a", "TargetKeyId": {"Ref": "Key"}}),
        (
            "Repository",
            "ECR::Repository",
            {
                "RepositoryName": "images",
                "RepositoryPolicyText": {
                    **_POLICY,
                    "Statement": [{**_SERVICE, "Action": "ecr:GetDownloadUrlForLayer"}],
                },
            },
        ),
        (
            "Table",
            "DynamoDB::Table",
            {
                **_TABLE,
                "TableName": "table",
                "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
            },
        ),
        ("Global", "DynamoDB::GlobalTable", {**_TABLE, "Replicas": [{"Region": "us-east-1"}]}),
        (
            "Alarm",
            "CloudWatch::Alarm",
            {
                "AlarmName": "alarm",
                "Namespace": "n",
                "MetricName": "m",
                "Statistic": "Sum",
                "Period": 60,
                "EvaluationPeriods": 1,
                "Threshold": 1,
                "ComparisonOperator": "GreaterThanThreshold",
            },
        ),
        (
            "Catalog",
            "Glue::Database",
            {"CatalogId": {"Ref": "AWS::AccountId"}, "DatabaseInput": {"Name": "catalog"}},
        ),
        (
            "CatalogTable",
            "Glue::Table",
            {
                "CatalogId": {"Ref": "AWS::AccountId"},
                "DatabaseName": {"Ref": "Catalog"},
                "TableInput": {"Name": "catalogtable"},
            },
        ),
        (
            "TopicPolicy",
            "SNS::TopicPolicy",
            {
                "Topics": [{"Ref": "Topic"}],
                "PolicyDocument": {
                    **_POLICY,
                    "Statement": [{**_SERVICE, "Action": "sns:Publish", "Resource": "*"}],
                },
            },
        ),
        (
            "QueuePolicy",
            "SQS::QueuePolicy",
            {
                "Queues": [{"Ref": "Queue"}],
                "PolicyDocument": {
                    **_POLICY,
                    "Statement": [{**_SERVICE, "Action": "sqs:SendMessage", "Resource": "*"}],
                },
            },
        ),
        (
            "Role",
            "IAM::Role",
            {
                "RoleName": "role",
                "AssumeRolePolicyDocument": {
                    **_POLICY,
                    "Statement": [
                        {
                            "Effect": "Allow",
                            "Action": "sts:AssumeRole",
                            "Principal": {"Service": "ec2.amazonaws.com"},
                        }
                    ],
                },
            },
        ),
        (
            "Managed",
            "IAM::ManagedPolicy",
            {"PolicyDocument": _POLICY, "Roles": [{"Ref": "Role"}]},
        ),
        (
            "Inline",
            "IAM::Policy",
            {"PolicyName": "i", "PolicyDocument": _POLICY, "Roles": [{"Ref": "Role"}]},
        ),
        ("Profile", "IAM::InstanceProfile", {"Roles": [{"Ref": "Role"}]}),
        ("Group", "Logs::LogGroup", {"LogGroupName": "g", "RetentionInDays": 7}),
        ("Stream", "Logs::LogStream", {"LogGroupName": {"Ref": "Group"}}),
        ("Dashboard", "CloudWatch::Dashboard", {"DashboardBody": '{"widgets": []}'}),
    )
}
# Their state is journalled, and cannot be taken back.
_JOURNALLED = frozenset({"lakeformation"})


@dataclass(slots=True)
class Trials:
    """Trials of a deployment's calls.

    Attributes:
        refused: the paths that are left out, by `service Operation`; found again when the rest is refused.
        tables: the fidelity tables of moto's services.
        learns: whether `refused` is found out where it is not true any more.
        tries: whether calls are tried by now; else they are only recorded.
        unseen: the members that no read shows and that have no reason, by `service Operation`; `failed`: what was
            refused nevertheless.
        tops: the members that were tried; `given`: the paths of all values in them.
    """

    refused: dict[str, list[str]]
    tables: Mapping[str, Any]
    learns: bool = False
    tries: bool = True
    unseen: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    tops: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    given: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    done: set[str] = field(default_factory=set[str])
    calls: list[Recorded] = field(default_factory=list[Recorded])
    is_trying: bool = False

    def shows(self, name: str, path: str) -> bool:
        """Return whether a call showed a member, or one inside it, or has a reason for it."""
        return any(
            (one == path or one.startswith(f"{path}.")) and one not in self.unseen.get(name, [])
            for one in self.given.get(name, [])
        )

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
        return self.tries and is_write(recorded) and recorded.service not in _JOURNALLED

    def _try(
        self, name: str, recorded: Recorded, run: Callable[[Any], Any], gateway: Any, cloud: Any
    ) -> None:
        shape = operation_model(recorded.service, recorded.operation).input_shape
        paths = list(missing_paths(shape, recorded.params))
        maker = Maker()
        values = {path: maker.value(shape_at(shape, path)) for path in paths}

        def attempt(params: dict[str, Any], *, reads: bool = True) -> tuple[list[str], str]:
            with taken_back(cloud):
                try:
                    answer = run(copy.deepcopy(params))
                except (AwsError, NotImplementedError, KeyError, TypeError, ValueError) as error:
                    return [], f"{type(error).__name__}: {error}"[:300]
                if not reads:
                    return [], ""
                tried = Recorded(recorded.service, recorded.operation, params, answer)
                others = [*self.calls, tried]
                shown = unread(gateway, [tried], self.tables, others, maker.texts)
                return shown.get(name, []), ""

        def with_values(some: list[str], base: dict[str, Any] | None = None) -> dict[str, Any]:
            params = copy.deepcopy(recorded.params if base is None else base)
            for path in some:
                put(params, path, copy.deepcopy(values[path]))
            return params

        def taken(beside: list[str], some: list[str]) -> list[str]:
            """Return those of some members that are not refused beside others, and beside each other."""
            if not some or not attempt(with_values([*beside, *some]), reads=False)[1]:
                return some
            if len(some) == 1:
                return []
            half = len(some) // 2
            first = taken(beside, some[:half])
            return [*first, *taken([*beside, *first], some[half:])]

        known = self.refused.get(name, [])
        rest = [path for path in paths if path not in known]
        if self.learns and attempt(with_values(rest), reads=False)[1]:
            kept = taken([], paths)
            self.refused[name] = [path for path in paths if path not in kept]
        chosen = [path for path in paths if path not in self.refused.get(name, [])]
        if not chosen:
            return
        self.tops[name] = chosen
        self.given[name] = paths_in({path: values[path] for path in chosen})
        missing, refusal = attempt(with_values(chosen))
        if refusal:
            self.failed[name] = refusal
        # What the example itself gives is read back after the deployment.
        left = {path for path in missing if any(_has([path], one) for one in chosen)}
        left -= {path for path in left if reason_of(name, MADE_UP_KEY.sub("", path))}
        for base in surroundings(shape, recorded.params):
            is_alone = base is recorded.params
            left = _still_unseen(left, chosen, base, is_alone, with_values, attempt)
        self.unseen[name] = sorted({MADE_UP_KEY.sub("", path) for path in left})


def _still_unseen(
    left: set[str],
    chosen: list[str],
    base: dict[str, Any],
    is_alone: bool,
    with_values: Callable[[list[str], dict[str, Any]], dict[str, Any]],
    attempt: Callable[[dict[str, Any]], tuple[list[str], str]],
) -> set[str]:
    """Return which paths are not shown beside other parameters either; each member is tried alone if `is_alone`."""
    tops = [path for path in chosen if _has(left, path)]
    unseen, refusal = attempt(with_values(tops, base)) if tops else ([], "")
    left &= left if refusal else set(unseen)
    for path in tops if refusal or is_alone else ():
        unseen, refusal = attempt(with_values([path], base))
        if not refusal:
            left -= {one for one in left if _has([one], path)} - set(unseen)
    return left


def _has(paths: Iterable[str], top: str) -> bool:
    """Return whether one of some paths is a member's, or inside it."""
    return any(path == top or path.startswith(f"{top}.") for path in paths)


@contextlib.contextmanager
def taken_back(cloud: Any, services: set[str] | None = None) -> Iterator[None]:
    """Undo what moto's services keep meanwhile, as after a full disk; note the services in `services`."""
    kept = cloud.cloud.moto._kept
    services = set[str]() if services is None else services
    rows, save = {}, kept.save

    def note(entry: Any, taken: Taken, *, frees: bool = False) -> list[Any]:
        more, changed, _ = taken
        services.update(more)
        rows.update(changed)
        return []

    kept.save = note
    try:
        yield
    finally:
        kept.save = save
        if services or rows:
            journalled = bool(kept.journalled & services)
            kept._take_back(services, rows, is_journalled=journalled)
            if kept.must_load_again:
                cloud.cloud.moto._load()
                kept.must_load_again = False


def reason_of(name: str, path: str) -> str:
    """Return where the value of a member is that no read shows; "" when nobody has said it."""
    for start, reason in NOT_SHOWN.get(name, {}).items():
        if path == start or path.startswith(f"{start}."):
            return reason
    return "the count of what is beside it" if path.endswith(".Quantity") else ""


def learned(results: list[Trials]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what trials refused, by `service Operation`, and what they dropped, by service and operation."""
    refused: dict[str, list[str]] = {}
    dropped: dict[str, dict[str, list[str]]] = {}
    for name in sorted({name for trials in results for name in trials.done}):

        def of_all(
            paths: Callable[[Trials], Mapping[str, list[str]]], name: str = name
        ) -> set[str]:
            return {path for one in results for path in paths(one).get(name, [])}

        # Two examples may give a call other members, beside which others are refused.
        refused[name] = sorted(of_all(lambda one: one.refused))
        unseen = of_all(lambda one: one.unseen)
        unseen = {path for path in unseen if not any(one.shows(name, path) for one in results)}
        service, operation = name.split()
        known = of_all(lambda one: one.given) | {*refused[name]}
        dropped.setdefault(service, {})[operation] = _shortest(
            unseen, known, of_all(lambda one: one.tops)
        )
    return _filled(refused), _filled({service: _filled(one) for service, one in dropped.items()})


def _shortest(dropped: set[str], known: set[str], tops: set[str]) -> list[str]:
    """Return the dropped paths; for those of a member of which everything is dropped, the member's own."""

    def outermost(path: str) -> str:
        names = path.split(".")
        outer = (".".join(names[:count]) for count in range(1, len(names) + 1))
        return next(
            one
            for one in outer
            if any(one == top or one.startswith(f"{top}.") for top in tops)
            and {path for path in known if path == one or path.startswith(f"{one}.")} <= dropped
        )

    return sorted({outermost(path) for path in dropped})


def _filled(calls: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in calls.items() if one}


def _tables() -> dict[str, dict[str, Any]]:
    """Return the fidelity tables without what these trials found."""
    dropped_members.cache_clear()
    tables: dict[str, dict[str, Any]] = moto_tables()
    for service, calls in json.loads(TRIED_FILE.read_text()).items():
        for operation, members in calls.items():
            for member in members:
                tables[service][operation].pop(member, None)
    return tables


def main(groups: list[str]) -> None:
    """Try every call of the stacks of all examples, and write what comes of it; of some groups, print it."""
    import tempfile

    import pytest

    from tests.api.cloudformation.test_declared import EXAMPLES, NAMED, changed_by

    results: list[Trials] = []
    examples = {"coded": CODED, **{name: one["resources"] for name, one in EXAMPLES.items()}}
    for group in groups or examples:
        started = time.monotonic()
        known = json.loads(REFUSED_FILE.read_text())
        trials, patches = Trials(known, _tables(), learns=True), pytest.MonkeyPatch()
        with (
            tempfile.TemporaryDirectory() as folder,
            InProcessCloud(Path(folder) / "data") as cloud,
        ):
            trials.watch(patches, cloud)
            cfn, change = cloud.client("cloudformation"), EXAMPLES.get(group, {}).get("change")
            for deploy, resources in (
                (cfn.create_stack, examples[group]),
                *([(cfn.update_stack, changed_by(examples[group], change))] if change else []),
            ):
                body = json.dumps({"Resources": resources})
                deploy(StackName=group, TemplateBody=body, **NAMED)
                while (status := _status_of(cfn, group)).endswith("IN_PROGRESS"):
                    time.sleep(0.2)
            patches.undo()
        seconds = time.monotonic() - started
        sys.stdout.write(f"{group} {status} {len(trials.done)} calls {seconds:.0f} s\n")
        sys.stdout.flush()
        results.append(trials)
    texts = [json.dumps(one, indent=0, sort_keys=True) + "\n" for one in learned(results)]
    for file, text in zip((REFUSED_FILE, TRIED_FILE), texts, strict=True):
        if groups:
            sys.stdout.write(text)
        else:
            file.write_text(text)


def _status_of(cfn: Any, name: str) -> str:
    return str(cfn.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])


if __name__ == "__main__":
    main(sys.argv[1:])
