"""Finds the tags of a resource, for the condition key aws:ResourceTag and the services' own tag keys.

They are read by the service's own operation, in process; for moto's services, from moto's state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import ControlPlane

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
