"""Finds resources by their tags, and reads and writes tags in the services that own them; a `Kind` for each type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, Permit, service_model
from headrace.aws.shapes.tagging import FailureInfo, TagFilter
from headrace.core.arn import Arn, make_arn, partition_of
from headrace.core.ports import ControlPlane
from headrace.core.values import get_list, get_mapping


class Tagging:
    """All tagged resources of all services. Thread-safe: it has no state."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def resources(self, call: Call, types: Sequence[str] = ()) -> list[TaggedResource]:
        """Return the tagged resources of the call's account and region, of these types or of all, sorted by ARN."""
        scope = self._place(call)
        tagged = [
            resource
            for kind in KINDS.values()
            if not types or any(_may_have(kind, type_name) for type_name in types)
            for resource in kind.found(scope)
            if resource.tags and (not types or any(_is(resource, type_name) for type_name in types))
        ]
        return sorted(tagged, key=lambda resource: resource.arn)

    def change(
        self, call: Call, arns: Sequence[str], change: Callable[[Kind, RegionServices, str], Any]
    ) -> dict[str, FailureInfo]:
        """Change each resource's tags; return the FailedResourcesMap.

        The caller needs the services' own permissions, too (documented: API_TagResources).
        """
        scope = RegionServices(self._control, call.account, call.region, call.permit)
        failed: dict[str, FailureInfo] = {}
        for arn in arns:
            try:
                change(_kind_of(arn, call), scope, arn)
            except AwsError as error:
                failed[arn] = {
                    "StatusCode": error.status,
                    "ErrorCode": "InvalidParameterException"
                    if error.status < 500
                    else "InternalServiceException",
                    "ErrorMessage": error.message,
                }
        return failed

    def _place(self, call: Call) -> RegionServices:
        return RegionServices(self._control, call.account, call.region)


def _kind_of(arn: str, call: Call) -> Kind:
    """Return the kind of a resource of the call's account and Region. Raises AwsError."""
    try:
        parsed = Arn.parse(arn)
        kind = KINDS.get(parsed.service)
    except ValueError:
        parsed, kind = None, None
    # The ARNs of buckets name no place.
    place = "" if kind is None or kind.service == "s3" else f"{call.region}:{call.account}"
    own = f"arn:{partition_of(call.region)}:{parsed.service if parsed else ''}:{place or ':'}:"
    if kind is None or not arn.startswith(own):
        raise AwsError(
            "InvalidParameterException", f"{arn} is no ARN of a resource that can be tagged here."
        )
    return kind


def _may_have(kind: Kind, type_filter: str) -> bool:
    return type_filter.partition(":")[0] == kind.service


def _is(resource: TaggedResource, type_filter: str) -> bool:
    """Return whether a resource has a type such as `s3` or `kinesis:stream`."""
    service, _, wanted_type = type_filter.partition(":")
    arn = Arn.parse(resource.arn)
    if arn.service != service:
        return False
    if not wanted_type or wanted_type.strip("/") == KINDS[service].type:
        return True
    return arn.resource.lstrip("/").startswith((f"{wanted_type}/", f"{wanted_type}:"))


def matching(resource: TaggedResource, filters: Sequence[TagFilter]) -> bool:
    """Return whether a resource has a tag for each filter: the key, and one of the values if the filter has any."""
    for tag_filter in filters:
        key, values = tag_filter.get("Key"), tag_filter.get("Values")
        if key is None:
            continue
        if key not in resource.tags or (values and resource.tags[key] not in values):
            return False
    return True


@dataclass(frozen=True, slots=True)
class TaggedResource:
    """A resource's ARN and its tags."""

    arn: str
    tags: Mapping[str, str]


Answer = dict[str, Any]
# The states of an EMR cluster that has not terminated.
_LIVING = ("STARTING", "BOOTSTRAPPING", "RUNNING", "WAITING", "TERMINATING")


@dataclass(frozen=True, slots=True)
class RegionServices:
    """Calls the services of one account and region. Thread-safe."""

    control: ControlPlane
    account: str
    region: str
    permit: Permit | None = None

    def call(self, service: str, operation: str, **params: Any) -> Answer:
        """Call an operation; the caller, if there is one, needs the permission. Raises AwsError."""
        if self.permit is not None:
            self.permit.ask(service, operation, params, account=self.account, region=self.region)
        return self.control.call(
            service, operation, params, account=self.account, region=self.region
        )

    def pages(self, service: str, operation: str, member: str, token: str, **params: Any) -> Any:
        """Yield the items in `member` of all pages.

        `token` is the pagination token's member: `a>b` when the answer calls it `a` and the request `b`.
        """
        out, _, back = token.partition(">")
        while True:
            answer = self.call(service, operation, **params)
            yield from get_list(answer, member)
            if not answer.get(out):
                return
            params[back or out] = answer[out]

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of a resource of this account and region."""
        return make_arn(service, self.region, self.account, resource)


@dataclass(frozen=True, slots=True)
class Kind:
    """One type of resource.

    Attributes:
        service: the service's name in ARNs.
        type: the resource type, for ARNs that do not contain it.
        found: yields all resources, also untagged ones.
        tag: adds tags to a resource. Raises AwsError.
        untag: removes the tags with these keys from a resource. Raises AwsError.
    """

    service: str
    type: str
    found: Callable[[RegionServices], Iterator[TaggedResource]]
    tag: Callable[[RegionServices, str, Mapping[str, str]], Any]
    untag: Callable[[RegionServices, str, Sequence[str]], Any]


def _pairs(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _tags(pairs: Any) -> dict[str, str]:
    return {pair["Key"]: pair.get("Value", "") for pair in pairs}


def _last(arn: str) -> str:
    return Arn.parse(arn).resource.rpartition("/")[2]


def _streams(services: RegionServices) -> Iterator[TaggedResource]:
    for stream in services.pages("kinesis", "ListStreams", "StreamSummaries", "NextToken"):
        arn = stream["StreamARN"]
        tags = services.call("kinesis", "ListTagsForStream", StreamARN=arn)["Tags"]
        yield TaggedResource(arn, _tags(tags))
    for kind in ("Queue", "Channel"):
        # The lowest botocore that headrace takes does not know them.
        if f"List{kind}s" not in service_model("kinesis").operation_names:
            continue
        for one in services.pages("kinesis", f"List{kind}s", f"{kind}Summaries", "NextToken"):
            arn = one[f"{kind}ARN"]
            tags = services.call("kinesis", "ListTagsForResource", ResourceARN=arn)["Tags"]
            yield TaggedResource(arn, _tags(tags))


def _tag_stream(services: RegionServices, arn: str, tags: Mapping[str, str]) -> None:
    if ":stream/" in arn:
        services.call("kinesis", "AddTagsToStream", StreamARN=arn, Tags=dict(tags))
    else:
        services.call("kinesis", "TagResource", ResourceARN=arn, Tags=dict(tags))


def _untag_stream(services: RegionServices, arn: str, keys: Sequence[str]) -> None:
    if ":stream/" in arn:
        services.call("kinesis", "RemoveTagsFromStream", StreamARN=arn, TagKeys=list(keys))
    else:
        services.call("kinesis", "UntagResource", ResourceARN=arn, TagKeys=list(keys))


def _own_bucket(services: RegionServices, arn: str) -> str:
    """Return the name of a bucket of the account; its ARN does not say whose it is. Raises AwsError."""
    name = _last(arn)
    # This cloud itself asks.
    unasked = replace(services, permit=None)
    own = unasked.pages("s3", "ListBuckets", "Buckets", "ContinuationToken")
    if all(bucket["Name"] != name for bucket in own):
        raise AwsError("InvalidParameterException", f"{arn} is no bucket of this account.")
    return name


def _bucket_tags(services: RegionServices, bucket: str) -> dict[str, str]:
    try:
        return _tags(services.call("s3", "GetBucketTagging", Bucket=bucket)["TagSet"])
    except AwsError as error:
        if error.code != "NoSuchTagSet":
            raise
        return {}


def _buckets(services: RegionServices) -> Iterator[TaggedResource]:
    for bucket in services.pages("s3", "ListBuckets", "Buckets", "ContinuationToken"):
        name = bucket["Name"]
        region = services.call("s3", "GetBucketLocation", Bucket=name).get("LocationConstraint")
        if (region or "us-east-1") == services.region:
            yield TaggedResource(make_arn("s3", "", "", name), _bucket_tags(services, name))


def _tag_bucket(services: RegionServices, arn: str, tags: Mapping[str, str]) -> None:
    bucket = _own_bucket(services, arn)
    every = {**_bucket_tags(services, bucket), **tags}
    tagging = {"TagSet": _pairs(every)}
    services.call("s3", "PutBucketTagging", Bucket=bucket, Tagging=tagging)


def _untag_bucket(services: RegionServices, arn: str, keys: Sequence[str]) -> None:
    bucket = _own_bucket(services, arn)
    left = {k: v for k, v in _bucket_tags(services, bucket).items() if k not in keys}
    if left:
        tagging = {"TagSet": _pairs(left)}
        services.call("s3", "PutBucketTagging", Bucket=bucket, Tagging=tagging)
    else:
        services.call("s3", "DeleteBucketTagging", Bucket=bucket)


def _functions(services: RegionServices) -> Iterator[TaggedResource]:
    for kind in ("Function", "EventSourceMapping"):
        for one in services.pages("lambda", f"List{kind}s", f"{kind}s", "NextMarker>Marker"):
            arn = one[f"{kind}Arn"]
            answer = services.call("lambda", "ListTags", Resource=arn)
            yield TaggedResource(arn, get_mapping(answer, "Tags"))


def _delivery_streams(services: RegionServices) -> Iterator[TaggedResource]:
    names = get_list(
        services.call("firehose", "ListDeliveryStreams", Limit=10_000), "DeliveryStreamNames"
    )
    for name in names:
        answer = services.call("firehose", "ListTagsForDeliveryStream", DeliveryStreamName=name)
        yield TaggedResource(
            services.arn("firehose", f"deliverystream/{name}"), _tags(answer["Tags"])
        )


def _clusters(services: RegionServices) -> Iterator[TaggedResource]:
    for page in services.pages("emr", "ListClusters", "Clusters", "Marker", ClusterStates=_LIVING):
        cluster = services.call("emr", "DescribeCluster", ClusterId=page["Id"])["Cluster"]
        yield TaggedResource(page["ClusterArn"], _tags(cluster["Tags"]))


def _applications(services: RegionServices) -> Iterator[TaggedResource]:
    token = "nextToken"
    for page in services.pages("emr-serverless", "ListApplications", "applications", token):
        if page["state"] != "TERMINATED":
            answer = services.call("emr-serverless", "ListTagsForResource", resourceArn=page["arn"])
            yield TaggedResource(page["arn"], get_mapping(answer, "tags"))


def _stacks(services: RegionServices) -> Iterator[TaggedResource]:
    for stack in services.pages("cloudformation", "DescribeStacks", "Stacks", "NextToken"):
        yield TaggedResource(stack["StackId"], _tags(stack["Tags"]))


def _refuse_stacks(services: RegionServices, arn: str, tags: Any) -> None:
    raise AwsError("InvalidParameterException", f"{arn}: a stack's tags are changed by an update.")


def _queues(services: RegionServices) -> Iterator[TaggedResource]:
    for url in services.pages("sqs", "ListQueues", "QueueUrls", "NextToken"):
        tags = get_mapping(services.call("sqs", "ListQueueTags", QueueUrl=url), "Tags")
        yield TaggedResource(services.arn("sqs", str(url).rpartition("/")[2]), tags)


def _queue_url(services: RegionServices, arn: str) -> str:
    return str(services.call("sqs", "GetQueueUrl", QueueName=_last(arn))["QueueUrl"])


def _topics(services: RegionServices) -> Iterator[TaggedResource]:
    for topic in services.pages("sns", "ListTopics", "Topics", "NextToken"):
        arn = topic["TopicArn"]
        yield TaggedResource(
            arn, _tags(services.call("sns", "ListTagsForResource", ResourceArn=arn)["Tags"])
        )


def _tables(services: RegionServices) -> Iterator[TaggedResource]:
    token = "LastEvaluatedTableName>ExclusiveStartTableName"
    for name in services.pages("dynamodb", "ListTables", "TableNames", token):
        arn = services.arn("dynamodb", f"table/{name}")
        yield TaggedResource(
            arn, _tags(services.call("dynamodb", "ListTagsOfResource", ResourceArn=arn)["Tags"])
        )


def _log_groups(services: RegionServices) -> Iterator[TaggedResource]:
    for group in services.pages("logs", "DescribeLogGroups", "logGroups", "nextToken"):
        arn = str(group["arn"]).removesuffix(":*")
        answer = services.call("logs", "ListTagsForResource", resourceArn=arn)
        yield TaggedResource(arn, get_mapping(answer, "tags"))


def _keys(services: RegionServices) -> Iterator[TaggedResource]:
    for key in services.pages("kms", "ListKeys", "Keys", "NextMarker>Marker"):
        tags = services.call("kms", "ListResourceTags", KeyId=key["KeyId"])["Tags"]
        yield TaggedResource(key["KeyArn"], {tag["TagKey"]: tag["TagValue"] for tag in tags})


def _key_pairs(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"TagKey": key, "TagValue": value} for key, value in tags.items()]


_PARAMETER = {"ResourceType": "Parameter"}


def _parameters(services: RegionServices) -> Iterator[TaggedResource]:
    for parameter in services.pages("ssm", "DescribeParameters", "Parameters", "NextToken"):
        name = parameter["Name"]
        answer = services.call("ssm", "ListTagsForResource", **_PARAMETER, ResourceId=name)
        arn = services.arn("ssm", f"parameter/{name.removeprefix('/')}")
        yield TaggedResource(arn, _tags(answer["TagList"]))


def _parameter_name(services: RegionServices, arn: str) -> str:
    """Return the name of a parameter: its ARN does not show a slash at the name's begin."""
    name = Arn.parse(arn).resource.removeprefix("parameter/")
    if "/" in name:
        return f"/{name}"
    # This cloud itself asks.
    found = replace(services, permit=None).call("ssm", "GetParameters", Names=[name])["Parameters"]
    return name if found else f"/{name}"


def _rules(services: RegionServices) -> Iterator[TaggedResource]:
    for bus in services.pages("events", "ListEventBuses", "EventBuses", "NextToken"):
        where = {"EventBusName": bus["Name"]}
        for rule in services.pages("events", "ListRules", "Rules", "NextToken", **where):
            answer = services.call("events", "ListTagsForResource", ResourceARN=rule["Arn"])
            yield TaggedResource(rule["Arn"], _tags(answer["Tags"]))


def _alarms(services: RegionServices) -> Iterator[TaggedResource]:
    for kind in ("MetricAlarm", "CompositeAlarm"):
        params = {"AlarmTypes": [kind]}
        for alarm in services.pages(
            "cloudwatch", "DescribeAlarms", f"{kind}s", "NextToken", **params
        ):
            arn = alarm["AlarmArn"]
            answer = services.call("cloudwatch", "ListTagsForResource", ResourceARN=arn)
            yield TaggedResource(arn, _tags(answer["Tags"]))


KINDS = {
    kind.service: kind
    for kind in (
        Kind(
            "cloudwatch",
            "alarm",
            _alarms,
            lambda p, a, t: p.call("cloudwatch", "TagResource", ResourceARN=a, Tags=_pairs(t)),
            lambda p, a, k: p.call("cloudwatch", "UntagResource", ResourceARN=a, TagKeys=list(k)),
        ),
        Kind(
            "events",
            "rule",
            _rules,
            lambda p, a, t: p.call("events", "TagResource", ResourceARN=a, Tags=_pairs(t)),
            lambda p, a, k: p.call("events", "UntagResource", ResourceARN=a, TagKeys=list(k)),
        ),
        Kind(
            "kms",
            "key",
            _keys,
            lambda p, a, t: p.call("kms", "TagResource", KeyId=a, Tags=_key_pairs(t)),
            lambda p, a, k: p.call("kms", "UntagResource", KeyId=a, TagKeys=list(k)),
        ),
        Kind(
            "ssm",
            "parameter",
            _parameters,
            lambda p, a, t: p.call(
                "ssm",
                "AddTagsToResource",
                **_PARAMETER,
                ResourceId=_parameter_name(p, a),
                Tags=_pairs(t),
            ),
            lambda p, a, k: p.call(
                "ssm",
                "RemoveTagsFromResource",
                **_PARAMETER,
                ResourceId=_parameter_name(p, a),
                TagKeys=list(k),
            ),
        ),
        # Streams, queues and channels: their ARNs say which.
        Kind("kinesis", "", _streams, _tag_stream, _untag_stream),
        Kind("s3", "bucket", _buckets, _tag_bucket, _untag_bucket),
        # Functions and event source mappings: their ARNs say which.
        Kind(
            "lambda",
            "",
            _functions,
            lambda p, a, t: p.call("lambda", "TagResource", Resource=a, Tags=dict(t)),
            lambda p, a, k: p.call("lambda", "UntagResource", Resource=a, TagKeys=list(k)),
        ),
        Kind(
            "firehose",
            "deliverystream",
            _delivery_streams,
            lambda p, a, t: p.call(
                "firehose", "TagDeliveryStream", DeliveryStreamName=_last(a), Tags=_pairs(t)
            ),
            lambda p, a, k: p.call(
                "firehose", "UntagDeliveryStream", DeliveryStreamName=_last(a), TagKeys=list(k)
            ),
        ),
        Kind(
            "elasticmapreduce",
            "cluster",
            _clusters,
            lambda p, a, t: p.call("emr", "AddTags", ResourceId=_last(a), Tags=_pairs(t)),
            lambda p, a, k: p.call("emr", "RemoveTags", ResourceId=_last(a), TagKeys=list(k)),
        ),
        Kind(
            "emr-serverless",
            "applications",
            _applications,
            lambda p, a, t: p.call("emr-serverless", "TagResource", resourceArn=a, tags=dict(t)),
            lambda p, a, k: p.call(
                "emr-serverless", "UntagResource", resourceArn=a, tagKeys=list(k)
            ),
        ),
        Kind("cloudformation", "stack", _stacks, _refuse_stacks, _refuse_stacks),
        Kind(
            "sqs",
            "queue",
            _queues,
            lambda p, a, t: p.call("sqs", "TagQueue", QueueUrl=_queue_url(p, a), Tags=dict(t)),
            lambda p, a, k: p.call("sqs", "UntagQueue", QueueUrl=_queue_url(p, a), TagKeys=list(k)),
        ),
        Kind(
            "sns",
            "topic",
            _topics,
            lambda p, a, t: p.call("sns", "TagResource", ResourceArn=a, Tags=_pairs(t)),
            lambda p, a, k: p.call("sns", "UntagResource", ResourceArn=a, TagKeys=list(k)),
        ),
        Kind(
            "dynamodb",
            "table",
            _tables,
            lambda p, a, t: p.call("dynamodb", "TagResource", ResourceArn=a, Tags=_pairs(t)),
            lambda p, a, k: p.call("dynamodb", "UntagResource", ResourceArn=a, TagKeys=list(k)),
        ),
        Kind(
            "logs",
            "log-group",
            _log_groups,
            lambda p, a, t: p.call("logs", "TagResource", resourceArn=a, tags=dict(t)),
            lambda p, a, k: p.call("logs", "UntagResource", resourceArn=a, tagKeys=list(k)),
        ),
    )
}
