"""Gives the calls of a stack every member that the API's model has, with made-up values, and reads them back.

`Trials.watch` tries each call of a deployment once with all members, asks the reads that fit (`read_whole`), and takes
the change back: the deployment goes on as if nothing had happened. What a service refuses with a made-up value is in
`made_up_refused.json`, which `python -m tests.support.made_up` writes.

A member that no read shows is dropped when moto's memory after the call is the same without it and with another value,
whatever else the call has: beside the example's members, beside all others, and beside all others without each one of
the example's, since some of moto's calls look at one member only if another is missing.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import random
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
from moto.moto_api._internal import mock_random

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.model import operation_model
from headrace.aws.gateway.dispatch import Gateway
from headrace.moto.dropped_members import TRIED_FILE, dropped_members
from headrace.moto.storage.changes import CHANGES
from headrace.moto.storage.pickles import backends_of
from headrace.services.iam.fidelity import moto_tables
from tests.support.cloud import InProcessCloud
from tests.support.read_back import leaves_of
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
_ANY = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
_POLICY = {"Version": "2012-10-17", "Statement": [_ANY]}
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
        ("Repository", "ECR::Repository", {"RepositoryName": "images"}),
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
# A key of a map, and what is below it.
_MADE_UP_KEY = re.compile(r"\.[vV]?(?:alue)?-?\d+(?:\..*)?$")
# The time of a call, in seconds, milliseconds or as text; made-up times are in 2030.
_TODAY = datetime.now(UTC)
_NOW = re.compile(_TODAY.strftime(r"%Y-%m-|%Y%m\d\d") + f"|{str(int(_TODAY.timestamp()))[:5]}")
# They answer once, or change nothing that a read shows.
_TOKENS = re.compile("token|dryrun|requestid", re.IGNORECASE)


@dataclass(slots=True)
class Maker:
    """Makes values of shapes up."""

    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(11))
    texts: set[str] = field(default_factory=set[str])

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
                    if str(number) in made:
                        self.texts.add(made)
                    return made
        self.texts.add(f"value-{number}")
        return f"value-{number}"

    def other(self, shape: Any, value: Any) -> Any:
        """Return another value of a shape; the same when it has only one."""
        if getattr(shape, "enum", None):
            return next((one for one in shape.enum if one != value), value)
        if isinstance(value, bool):
            return not value
        if isinstance(value, int | float):
            return value - 1 if value > shape.metadata.get("min", 1) else value + 1
        if isinstance(shape, ListShape):
            return [self.other(shape.member, value[0])]
        return self.value(shape)


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
    """Return the shape of a member by its path, which goes through lists."""
    for name in path.split("."):
        while isinstance(shape, ListShape):
            shape = shape.member
        shape = shape.members[name]
    return shape


def put(params: dict[str, Any], path: str, value: Any) -> None:
    """Set a member by its path."""
    *outer, last = path.split(".")
    for name in outer:
        params = params.setdefault(name, {})
    params[last] = value


def edit(params: Any, path: str, change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a copy of parameters with a member changed, in each item of lists on its path; None takes it away."""
    if isinstance(params, list):
        return [edit(one, path, change) for one in params]  # type: ignore[return-value]
    name, _, rest = path.partition(".")
    if not isinstance(params, dict) or name not in params:
        return params
    value = edit(params[name], rest, change) if rest else change(params[name])
    kept = {key: one for key, one in params.items() if key != name}
    return kept if value is None else {**kept, name: value}


@dataclass(slots=True)
class Trials:
    """Trials of a deployment's calls.

    Attributes:
        refused: the paths that are left out, by `service Operation`; found again when the rest is refused.
        tables: the fidelity tables of moto's services.
        learns: whether `refused` is found out where it is not true any more, and what is dropped.
        unseen: the members that no read shows, by `service Operation`; `failed`: what was refused nevertheless.
        given: the paths that were tried.
        dropped: of `unseen`, when it learns: what is nowhere in moto's memory after the call.
    """

    refused: dict[str, list[str]]
    tables: Mapping[str, Any]
    learns: bool = False
    unseen: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    given: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    dropped: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    done: set[str] = field(default_factory=set[str])
    calls: list[Recorded] = field(default_factory=list[Recorded])
    is_trying: bool = False

    def keeps(self, name: str, path: str) -> bool:
        """Return whether a call showed a member, or one inside it, or kept it in memory."""
        return any(
            (one == path or one.startswith(f"{path}."))
            and not any(one == d or one.startswith(f"{d}.") for d in self.dropped.get(name, []))
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
        return is_write(recorded) and recorded.service not in _JOURNALLED

    def _try(
        self, name: str, recorded: Recorded, run: Callable[[Any], Any], gateway: Any, cloud: Any
    ) -> None:
        shape = operation_model(recorded.service, recorded.operation).input_shape
        paths = list(missing_paths(shape, recorded.params))
        maker = Maker()
        values = {path: maker.value(shape_at(shape, path)) for path in paths}

        def attempt(chosen: list[str], *, reads: bool = True) -> tuple[list[str], str]:
            params = copy.deepcopy(recorded.params)
            for path in chosen:
                put(params, path, copy.deepcopy(values[path]))
            with taken_back(cloud):
                try:
                    answer = run(params)
                except (AwsError, NotImplementedError, KeyError, TypeError, ValueError) as error:
                    return [], f"{type(error).__name__}: {error}"[:300]
                if not reads:
                    return [], ""
                tried = Recorded(recorded.service, recorded.operation, params, answer)
                others = [*self.calls, tried]
                shown = unread(gateway, [tried], self.tables, others, maker.texts)
                return shown.get(name, []), ""

        def taken(beside: list[str], some: list[str]) -> list[str]:
            """Return those of some members that are not refused beside others, and beside each other."""
            if not some or not attempt([*beside, *some], reads=False)[1]:
                return some
            if len(some) == 1:
                return []
            half = len(some) // 2
            first = taken(beside, some[:half])
            return [*first, *taken([*beside, *first], some[half:])]

        known = self.refused.get(name, [])
        rest = [path for path in paths if path not in known]
        if self.learns and attempt(rest, reads=False)[1]:
            kept = taken([], paths)
            self.refused[name] = [path for path in paths if path not in kept]
        chosen = [path for path in paths if path not in self.refused.get(name, [])]
        if not chosen:
            return
        self.given[name] = paths_in({path: values[path] for path in chosen})
        missing, refusal = attempt(chosen)
        if refusal:
            self.failed[name] = refusal
        own = tuple(f"{path}." for path in chosen)
        # What the example itself gives is read back after the deployment.
        missing = [path for path in missing if path in chosen or path.startswith(own)]
        if missing:
            self.unseen[name] = sorted({_MADE_UP_KEY.sub("", path) for path in missing})
        if missing and self.learns:
            lab = _Lab(shape, recorded.params, {path: values[path] for path in chosen}, run, cloud)
            dropped = [path for path in self.unseen[name] if not lab.has_effect(path)]
            self.dropped[name] = lab.shortest(dropped, self.refused.get(name, []))


@dataclass(slots=True)
class _Lab:
    """Tells whether a call's members leave a mark in moto's memory.

    Attributes:
        shape: the call's input shape; `own`: the example's parameters; `values`: the made-up ones, by path.
        marked: by member, parameters of which it leaves a mark; None when it never does.
    """

    shape: Any
    own: dict[str, Any]
    values: Mapping[str, Any]
    run: Callable[[Any], Any]
    cloud: Any
    memories: dict[str, Counter[str] | None] = field(default_factory=dict[str, Any])
    marked: dict[str, dict[str, Any] | None] = field(default_factory=dict[str, Any])

    def has_effect(self, path: str) -> bool:
        """Return whether memory differs without a member, or with another value of it."""
        top = next(one for one in self.values if path == one or path.startswith(f"{one}."))
        if top not in self.marked:
            marked = (params for params in self._surroundings(top) if self._differs(params, top))
            self.marked[top] = next(marked, None)
        params = self.marked[top]
        return params is not None and (path == top or self._differs(params, path))

    def _differs(self, params: dict[str, Any], path: str) -> bool:
        member, maker = shape_at(self.shape, path), Maker(itertools.count(71))
        memory = self._memory_after(params)
        for change in (lambda _: None, lambda value: maker.other(member, value)):
            after = None if memory is None else self._memory_after(edit(params, path, change))
            more = 0 if memory is None or after is None else _difference(memory, after)
            if more and more > self._noise(params, memory):
                return True
        return False

    def _surroundings(self, top: str) -> Iterator[dict[str, Any]]:
        whole = copy.deepcopy(self.own)
        for one, value in self.values.items():
            put(whole, one, copy.deepcopy(value))
        yield whole
        alone = copy.deepcopy(self.own)
        put(alone, top, copy.deepcopy(self.values[top]))
        yield alone
        optional = [
            name
            for name in self.own
            if name not in self.shape.required_members and name != top.partition(".")[0]
        ]
        without = {key: value for key, value in whole.items() if key not in optional}
        yield without
        if self._memory_after(without) is None:
            for name in optional:
                yield {key: value for key, value in whole.items() if key != name}

    def _noise(self, params: dict[str, Any], memory: Counter[str]) -> int:
        """Return by how much memory differs after the same call."""
        again = self._memory_after(params, again=True)
        return 0 if again is None else _difference(memory, again)

    def _memory_after(self, params: dict[str, Any], *, again: bool = False) -> Counter[str] | None:
        """Return the values in memory after a call; None when it is refused."""
        key = json.dumps([params, again], sort_keys=True, default=repr)
        if key not in self.memories:
            self.memories[key] = self._measure(copy.deepcopy(params))
        return self.memories[key]

    def _measure(self, params: dict[str, Any]) -> Counter[str] | None:
        services: set[str] = set()
        mock_random.seed(7)
        random.seed(7)
        with taken_back(self.cloud, services):
            try:
                self.run(params)
            except (AwsError, NotImplementedError, KeyError, TypeError, ValueError):
                return None
            return Counter(leaf for one in services for leaf in leaves(one))

    def shortest(self, dropped: list[str], refused: list[str]) -> list[str]:
        """Return the dropped paths; for those of a member of which everything is dropped, the member's own."""
        all_paths = paths_in(self.values)
        shortened: set[str] = set()
        for path in dropped:
            names = path.split(".")
            outer = [".".join(names[: at + 1]) for at in range(len(names))]
            shortened.add(
                next(
                    one
                    for one in outer
                    if any(one == top or one.startswith(f"{top}.") for top in self.values)
                    and not any(other.startswith(f"{one}.") for other in refused)
                    and {leaf for leaf in all_paths if leaf == one or leaf.startswith(f"{one}.")}
                    <= set(dropped)
                )
            )
        return sorted(shortened)


def paths_in(values: Mapping[str, Any]) -> list[str]:
    """Return the paths of all values in members' values, which stand by path."""
    return [
        _MADE_UP_KEY.sub("", leaf)
        for path, value in values.items()
        for leaf, _ in leaves_of({path.rpartition(".")[2]: value}, path.rpartition(".")[0])
    ]


def _difference(one: Counter[str], other: Counter[str]) -> int:
    return max((one - other).total(), (other - one).total())


def leaves(package: str) -> Iterator[str]:
    """Yield all plain values in the memory of a service of moto's but times, as text, as often as they are there."""
    seen, left = set[int](), list[Any](backends_of(package).values())
    while left:
        one = left.pop()
        if one is None or isinstance(one, str | bytes | int | float):
            text = one.decode("latin1") if isinstance(one, bytes) else str(one)
            if not _NOW.match(text):
                yield text
            continue
        if id(one) in seen or isinstance(one, type | types.ModuleType | types.FunctionType):
            continue
        seen.add(id(one))
        if isinstance(one, Mapping):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set | frozenset | deque):
            left += one
        elif isinstance(one, datetime) and not _NOW.match(one.isoformat()):
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


_SECRET = "a secret: no read shows it"
_PARTS_SHOWN = "DescribeVpcAttribute and DescribeSubnets show it without Value"
# Why a member that no fitting read shows is not ignored.
_HAVE_EFFECTS: dict[str, dict[str, str]] = {
    "apigateway CreateDomainName": dict.fromkeys(
        ("certificateBody", "certificateChain", "certificatePrivateKey"),
        "an uploaded certificate: AWS's reads do not show it either",
    ),
    "apigatewayv2 CreateApi": {"Target": "quick create: test_quick_create.py sees its route"},
    "autoscaling CreateLaunchConfiguration": {
        "InstanceId": "the instance whose settings are taken",
        "UserData": "shown decoded",
    },
    "cloudtrail CreateTrail": {"EnableLogFileValidation": "shown as LogFileValidationEnabled"},
    "cognito-idp AdminCreateUser": {"TemporaryPassword": _SECRET},
    "cognito-idp CreateUserPoolDomain": {
        "CustomDomainConfig.CertificateArn": "decides the domain of CloudFrontDistribution"
    },
    "dms CreateEndpoint": {"Password": _SECRET, "ResourceIdentifier": "the end of its ARN"},
    "dms CreateReplicationInstance": {
        "ResourceIdentifier": "the end of its ARN",
        "VpcSecurityGroupIds": "shown as VpcSecurityGroups",
    },
    "dynamodb CreateTable": {"SSESpecification": "shown as SSEDescription"},
    "ec2 AllocateAddress": {"Address": "shown as PublicIp"},
    "ec2 CreateVpc": {"AmazonProvidedIpv6CidrBlock": "shown as Ipv6CidrBlockAssociationSet"},
    **{
        f"ec2 AuthorizeSecurityGroup{way}": dict.fromkeys(
            (
                "CidrIp",
                "FromPort",
                "IpProtocol",
                "SourceSecurityGroupName",
                "SourceSecurityGroupOwnerId",
                "ToPort",
            ),
            "the older form of IpPermissions, which goes first",
        )
        for way in ("Egress", "Ingress")
    },
    "ec2 CreateRoute": {
        "DestinationPrefixListId": "another destination",
        **dict.fromkeys(
            ("CarrierGatewayId", "NatGatewayId", "TransitGatewayId"),
            "another target than GatewayId",
        ),
    },
    "ec2 RunInstances": {
        "InstanceMarketOptions.MarketType": "shown as InstanceLifecycle",
        "Monitoring.Enabled": "shown as the state of Monitoring",
        **dict.fromkeys(
            ("DisableApiStop", "InstanceInitiatedShutdownBehavior"),
            "DescribeInstanceAttribute shows it",
        ),
    },
    "ec2 CreateVpcEndpoint": {"SecurityGroupIds": "shown as Groups"},
    "ec2 ModifySubnetAttribute": dict.fromkeys(
        ("AssignIpv6AddressOnCreation.Value", "EnableResourceNameDnsARecordOnLaunch.Value"),
        _PARTS_SHOWN,
    ),
    "ec2 ModifyVpcAttribute": dict.fromkeys(
        ("EnableDnsHostnames.Value", "EnableNetworkAddressUsageMetrics.Value"), _PARTS_SHOWN
    ),
    "efs CreateFileSystem": {"Backup": "DescribeBackupPolicy shows it"},
    "elbv2 CreateTargetGroup": {"ProtocolVersion": "of groups by HTTP alone"},
    **{
        name: {
            "AdvancedSecurityOptions.MasterUserOptions": _SECRET,
            "AdvancedSecurityOptions.SAMLOptions": "AWS's reads do not show the master user either",
        }
        for name in ("es CreateElasticsearchDomain", "opensearch CreateDomain")
    },
    "glue CreateDatabase": {"Tags": "GetTags asks by an ARN that no answer shows"},
    "glue CreateTrigger": {
        "Schedule": "of scheduled triggers alone",
        "StartOnCreation": "its State is ACTIVATED then",
    },
    "guardduty CreateDetector": {
        f"DataSources.{source}": "shown as a status"
        for source in ("Kubernetes.AuditLogs.Enable", "S3Logs.Enable")
    },
    "route53 CreateHealthCheck": {
        "HealthCheckConfig.HealthThreshold": "of calculated checks alone"
    },
    "ssm CreateDocument": {"Attachments": "GetDocument shows it as AttachmentsContent"},
    "ssm PutParameter": dict.fromkeys(("Policies", "Tags", "Tier"), "test_read_back.py sees it"),
    "apigateway CreateDeployment": dict.fromkeys(
        ("cacheClusterEnabled", "cacheClusterSize", "stageName", "tracingEnabled", "variables"),
        "a setting of the stage of stageName",
    ),
    "apigateway PutRestApi": dict.fromkeys(
        ("failOnWarnings", "mode", "parameters"), "says how the body is taken"
    ),
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
_ELSEWHERE = "kept: the reads that fit do not show it, or by another name"


def effect_of(name: str, path: str) -> str:
    """Return why a member that leaves no mark is not dropped; "" for one that is."""
    for start, reason in _HAVE_EFFECTS.get(name, {}).items():
        if path == start or path.startswith(f"{start}."):
            return reason
    return "the count of what is beside it" if path.endswith(".Quantity") else ""


def write(results: list[Trials]) -> None:
    """Write of the calls that were tried: `made_up_refused.json`, `not_shown.json` and moto's `tried_members.json`."""
    files = REFUSED_FILE, REFUSED_FILE.with_name("not_shown.json"), TRIED_FILE
    refused, shown, dropped = (json.loads(file.read_text()) for file in files)
    for name in sorted({name for trials in results for name in trials.done}):
        service, operation = name.split()
        refused[name] = []
        shown.pop(name, None)
        dropped.get(service, {}).pop(operation, None)
        shown |= {name: dict(_HAVE_EFFECTS[name])} if name in _HAVE_EFFECTS else {}
        for trials in results:
            if trials.refused.get(name):
                # Two examples may give a call other members, beside which others are refused.
                refused[name] = sorted({*refused.get(name, []), *trials.refused[name]})
            lost = [
                path
                for path in trials.dropped.get(name, [])
                if not effect_of(name, path) and not any(t.keeps(name, path) for t in results)
            ]
            if lost:
                calls = dropped.setdefault(service, {})
                calls[operation] = sorted({*calls.get(operation, []), *lost})
            for path in trials.unseen.get(name, []):
                if not any(path == one or path.startswith(f"{one}.") for one in lost):
                    shown.setdefault(name, {})[path] = effect_of(name, path) or _ELSEWHERE
    refused = {name: paths for name, paths in refused.items() if paths}
    dropped = {service: calls for service, calls in dropped.items() if calls}
    for file, content in zip(files, (refused, shown, dropped), strict=True):
        file.write_text(json.dumps(content, indent=0, sort_keys=True) + "\n")


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
    """Try every call of the stacks of all examples, or of some, and write what comes of it."""
    import tempfile

    import pytest

    from tests.api.cloudformation.test_declared import EXAMPLES, NAMED

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
            cfn, body = cloud.client("cloudformation"), {"Resources": examples[group]}
            cfn.create_stack(StackName=group, TemplateBody=json.dumps(body), **NAMED)
            while (status := _status_of(cfn, group)).endswith("IN_PROGRESS"):
                time.sleep(0.2)
            patches.undo()
        seconds = time.monotonic() - started
        sys.stdout.write(f"{group} {status} {len(trials.done)} calls {seconds:.0f} s\n")
        sys.stdout.flush()
        results.append(trials)
        write(results)


def _status_of(cfn: Any, name: str) -> str:
    return str(cfn.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])


if __name__ == "__main__":
    main(sys.argv[1:])
