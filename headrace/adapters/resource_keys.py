"""Finds the customer managed KMS key of a stream, an object or its bucket, a queue, a topic, a secret or a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.aws.calls.errors import AwsError
from headrace.aws.protocols.service import ServiceApi
from headrace.core.ports import BucketNotFound, ObjectNotFound


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

        `kind`: see `headrace.services.s3.resource_keys`; other services have one kind.
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
