"""Finds the ARN of a resource that a request names otherwise: a key by alias, a role or a stack by name.

Finds the customer managed KMS key of a stream, an object or its bucket, a queue, a topic, a secret or a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.protocols.service import ServiceApi
from headrace.core.ports import BucketNotFound, ControlPlane, ObjectNotFound


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


def _consumer(name: str) -> Mapping[str, Any]:
    stream, _, consumer = name.partition("/consumer/")
    return {"StreamARN": stream, "ConsumerName": consumer}


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
