"""What permissions and services ask of any resource: its ARN, KMS key, tags and resource-based policy.

A request may name a key by its alias, a role or a stack by its name. Tags are read by the service's own operation, in
process; for moto's services, from moto's state. Policies of the services that are used most are read from the services'
state, others by the service's own operation; those of moto's services are cached until a policy changes.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.protocols.service import ServiceApi
from headrace.core.ports import BucketNotFound, ControlPlane, ObjectNotFound
from headrace.permissions.policies.document import UnreadableDocument
from headrace.permissions.policies.model import Access, NamedPolicy

Read = Callable[[Any, str], Any]


class ResourceTags:
    """Reads tags of resources. Thread-safe.

    Args:
        control: calls the services that headrace owns.
        held: returns the tags of a resource of moto's services, by ARN, without a request.
    """

    def __init__(self, control: ControlPlane, *, held: Callable[[str], Mapping[str, str]]) -> None:
        self._control = control
        self._held = held

    def of(self, arn: str) -> Mapping[str, str]:
        """Return the tags of a resource; none when it does not exist, or headrace does not read its tags."""
        if arn.count(":") < 5 or "*" in arn:
            return {}
        _, _, service, region, account, _ = arn.split(":", 5)
        read = _READERS.get(service)
        if read is None:
            return self._held(arn)

        def ask(name: str, operation: str, **params: Any) -> dict[str, Any]:
            return self._control.call(name, operation, params, account=account, region=region)

        try:
            return _pairs(read(ask, arn))
        except (AwsError, LookupError):
            return {}  # the service itself reports that the resource does not exist


def _pairs(tags: Any) -> dict[str, str]:
    if isinstance(tags, Mapping):
        return {str(key): str(value) for key, value in cast("Mapping[Any, Any]", tags).items()}
    listed = cast("list[Mapping[str, Any]]", tags or [])
    return {str(tag["Key"]): str(tag.get("Value") or "") for tag in listed}


def _stream(ask: Any, arn: str) -> Any:
    return ask("kinesis", "ListTagsForResource", ResourceARN=arn)["Tags"]


def _function(ask: Any, arn: str) -> Any:
    parts = arn.split(":")
    # Versions and aliases have the tags of the function.
    return ask("lambda", "ListTags", Resource=":".join(parts[:7]))["Tags"]


def _delivery_stream(ask: Any, arn: str) -> Any:
    name = arn.rpartition("/")[2]
    return ask("firehose", "ListTagsForDeliveryStream", DeliveryStreamName=name)["Tags"]


def _cluster(ask: Any, arn: str) -> Any:
    return ask("emr", "DescribeCluster", ClusterId=arn.rpartition("/")[2])["Cluster"]["Tags"]


def _serverless(ask: Any, arn: str) -> Any:
    return ask("emr-serverless", "ListTagsForResource", resourceArn=arn)["tags"]


def _workgroup(ask: Any, arn: str) -> Any:
    tags = ask("redshift-serverless", "ListTagsForResource", resourceArn=arn)["tags"]
    return {tag["key"]: tag["value"] for tag in tags}


def _stack(ask: Any, arn: str) -> Any:
    return ask("cloudformation", "DescribeStacks", StackName=arn)["Stacks"][0]["Tags"]


_READERS: dict[str, Read] = {
    "kinesis": _stream,
    "lambda": _function,
    "firehose": _delivery_stream,
    "elasticmapreduce": _cluster,
    "emr-serverless": _serverless,
    "redshift-serverless": _workgroup,
    "cloudformation": _stack,
}


class ResourceKeys:
    """Finds KMS keys in the state of the services, without a request. Thread-safe.

    Args:
        owned: the services that headrace owns, by name.
        in_moto: returns the key of a queue, a topic, a secret or a table, by ARN.
        key_named: returns the ARN of a customer managed key from its id or alias, account and region.
    """

    def __init__(
        self,
        *,
        owned: Mapping[str, ServiceApi],
        in_moto: Callable[[str], str],
        key_named: Callable[[str, str, str], str],
    ) -> None:
        self._owned = owned
        self._in_moto = in_moto
        self._key_named = key_named

    def of(self, service: str, kind: str, resource: str) -> str:
        """Return the ARN of a resource's key; empty for AWS's own keys and without encryption.

        `kind`: see `headrace.services.s3.api`; other services have one kind.
        """
        if not resource.startswith("arn:") or "*" in resource:
            return ""
        if service in ("sqs", "sns", "secretsmanager", "dynamodb"):
            return self._in_moto(resource)
        api = self._owned.get(service)
        if api is None or api.key_of is None:
            return ""
        try:
            key, account, region = api.key_of(kind, resource)
        except (BucketNotFound, ObjectNotFound, LookupError, AwsError):
            return ""  # the service itself reports that the resource does not exist
        return self._key_named(key, account, region) if key and account else key


# By service and kind: the operation to call, its parameters for a name, and the ARN in its answer.
Look = tuple[str, Callable[[str], Mapping[str, Any]], Callable[[Mapping[str, Any]], Any]]


class ResourceNames:
    """Finds ARNs by each service's own operations, in process. Thread-safe.

    `keys` returns the key of a resource, by service, kind and ARN: see `ResourceKeys.of`.
    """

    def __init__(self, control: ControlPlane, keys: Callable[[str, str, str], str]) -> None:
        self._control = control
        self._keys = keys

    def find(self, account: str, region: str, service: str, kind: str, name: str) -> str | None:
        """Return the ARN, or None. See `headrace.permissions.requests.table.Find`."""
        if kind in ("key", "object key", "upload key", "key scope"):
            return self._keys(service, kind, name) or None
        if kind == "definition":
            return _definition(name)
        look = _LOOKS.get((service, kind))
        if look is None or not name:
            return None
        operation, params, arn = look
        try:
            answer = self._control.call(
                service, operation, params(name), account=account, region=region
            )
            resource_arn = arn(answer)
        except (AwsError, LookupError):
            return None
        return str(resource_arn) if resource_arn else None


def _definition(text: str) -> str | None:
    """Return an API's definition as JSON; None when nobody can read it, which the service itself reports.

    The text is the request's very bytes, so that no encoding is read in two ways, or a text that is a member.
    """
    from headrace.services.apigateway.openapi import BadDefinition, parse_definition

    body: bytes | str = text
    with contextlib.suppress(UnicodeEncodeError):
        body = text.encode(errors="surrogateescape")
    try:
        return json.dumps(_with_text_names(parse_definition(body)), default=str)
    except BadDefinition:
        return None


def _with_text_names(value: Any) -> Any:
    """Return a YAML value as JSON can have it: what has a date or a number for a name is kept without one."""
    if isinstance(value, (list, tuple, set)):
        return [_with_text_names(one) for one in cast("Iterable[Any]", value)]
    if not isinstance(value, dict):
        return value
    pairs = cast("dict[Any, Any]", value).items()
    named = {name: _with_text_names(one) for name, one in pairs if isinstance(name, str)}
    others = [_with_text_names(one) for name, one in pairs if not isinstance(name, str)]
    return {**named, "": [named.get(""), *others]} if others else named


def _consumer(name: str) -> Mapping[str, Any]:
    stream, _, consumer = name.partition("/consumer/")
    return {"StreamARN": stream, "ConsumerName": consumer}


# More than an account has (documented: 500,000): all are asked for at once.
_MOST_SECRETS = 1_000_000
_LOOKS: dict[tuple[str, str], Look] = {
    ("kms", "alias"): (
        "DescribeKey",
        lambda name: {"KeyId": name},
        lambda answer: answer["KeyMetadata"]["Arn"],
    ),
    ("secretsmanager", "secret"): (
        "DescribeSecret",
        lambda name: {"SecretId": name},
        lambda answer: answer["ARN"],
    ),
    ("secretsmanager", "secrets"): (
        "ListSecrets",
        lambda filters: {"Filters": json.loads(filters), "MaxResults": _MOST_SECRETS},
        lambda answer: " ".join(one["ARN"] for one in answer["SecretList"]),
    ),
    ("cloudformation", "stack"): (
        "DescribeStacks",
        lambda name: {"StackName": name},
        lambda answer: answer["Stacks"][0]["StackId"],
    ),
    ("iam", "role"): (
        "GetRole",
        lambda name: {"RoleName": name},
        lambda answer: answer["Role"]["Arn"],
    ),
    ("iam", "user"): (
        "GetUser",
        lambda name: {"UserName": name},
        lambda answer: answer["User"]["Arn"],
    ),
    ("iam", "instance profile"): (
        "GetInstanceProfile",
        lambda name: {"InstanceProfileName": name},
        lambda answer: answer["InstanceProfile"]["Roles"][0]["Arn"],
    ),
    ("lambda", "mapping"): (
        "GetEventSourceMapping",
        lambda name: {"UUID": name},
        lambda answer: answer["FunctionArn"],
    ),
    ("kinesis", "queue's stream"): (
        "DescribeQueue",
        lambda name: {"QueueARN": name},
        lambda answer: answer["QueueDescription"]["StreamConfigurationList"][0]["StreamARN"],
    ),
    ("kinesis", "consumer"): (
        "DescribeStreamConsumer",
        _consumer,
        lambda answer: answer["ConsumerDescription"]["ConsumerARN"],
    ),
}


MOST_KEPT = 10_000
# Returns the policy of a resource by ARN, without a request; None when it has none.
Lookup = Callable[[str], str | None]
ReadPolicy = Callable[[ControlPlane, "ArnParts"], Any]


class ArnParts:
    """The parts of an ARN, and the account and region of its resource."""

    def __init__(self, access: Access) -> None:
        _, _, self.service, self.region, account, self.resource = access.resource.split(":", 5)
        self.arn = access.resource
        self.account = account or access.account
        self.name = self.resource.rpartition("/")[2].rpartition(":")[2]

    def ask(
        self, control: ControlPlane, operation: str, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Call an operation of the resource's service, in its account and region. Raises AwsError."""
        account, region = self.account or None, self.region or None
        return control.call(self.service, operation, params, account=account, region=region)


class ResourcePolicies:
    """Reads policies of resources. Thread-safe.

    Args:
        control: calls the services.
        trust_policy: returns the trust policy of a role.
        owned: the services that headrace owns, by name.
        held: functions that read policies from moto's state, by service.
        version: returns a number that grows with each change of a policy.
    """

    def __init__(
        self,
        control: ControlPlane,
        *,
        trust_policy: Callable[[str], str | None],
        owned: Mapping[str, ServiceApi],
        held: Mapping[str, Lookup],
        version: Callable[[], int],
    ) -> None:
        self._control = control
        self._trust_policy = trust_policy
        self._owned = owned
        self._held = held
        self._version = version
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[int, NamedPolicy | None]] = {}

    def of(self, access: Access) -> NamedPolicy | None:
        """Return the policy of an access's resource; None when it has none or does not exist."""
        if access.resource.count(":") < 5 or "*" in access.resource:
            return None
        named = ArnParts(access)
        if named.service == "iam":
            is_trust = access.action.startswith("sts:")
            text = self._trust_policy(named.arn) if is_trust else None
            return _policy("trust policy", text) if text else None
        api = self._owned.get(named.service)
        lookup = self._held.get(named.service) if api is None else api.policy_of
        if lookup is not None:
            text = lookup(named.arn)
            return _policy(f"{named.service} policy", text) if text else None
        if named.service not in _POLICY_READERS:
            return None
        version = self._version()
        with self._lock:
            kept = self._kept.get(named.arn)
        if kept is not None and kept[0] == version:
            return kept[1]
        policy = self._read(named)
        with self._lock:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[named.arn] = (version, policy)
        return policy

    def _read(self, named: ArnParts) -> NamedPolicy | None:
        try:
            text = _POLICY_READERS[named.service](self._control, named)
        except (AwsError, LookupError):
            return None  # no policy, or no such resource, which the service itself reports
        return _policy(f"{named.service} policy", text) if text else None


def _policy(name: str, text: Any) -> NamedPolicy | None:
    if text == "{}":
        return None
    try:
        return NamedPolicy.of(name, str(text))
    except UnreadableDocument:
        return None


def _repository(control: ControlPlane, named: ArnParts) -> Any:
    params = {"repositoryName": named.resource.removeprefix("repository/")}
    return named.ask(control, "GetRepositoryPolicy", params)["policyText"]


def _secret(control: ControlPlane, named: ArnParts) -> Any:
    params = {"SecretId": named.arn}
    answer = named.ask(control, "GetResourcePolicy", params)
    return answer.get("ResourcePolicy")


def _table(control: ControlPlane, named: ArnParts) -> Any:
    params = {"ResourceArn": named.arn}
    return named.ask(control, "GetResourcePolicy", params).get("Policy")


_POLICY_READERS: dict[str, ReadPolicy] = {
    "ecr": _repository,
    "secretsmanager": _secret,
    "dynamodb": _table,
}
