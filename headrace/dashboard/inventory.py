"""`Inventory`: every resource of a pipeline, and which feeds which, read through AWS's list and describe operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.core.values import as_mapping, parse_json
from headrace.dashboard.account import Account, Reader, milliseconds, name_of, next_token

# AWS names no more of a kind than this to a page.
MOST_OF_A_KIND = 1_000


@dataclass(slots=True)
class Resource:
    """A resource.

    Attributes:
        id: `kind:name`, unique in an account and region, the same after a restart.
        state: AWS's state; empty when the kind has none.
        problem: why it fails, in a sentence; empty while it does not.
        facts: what a row says of it beside its figures.
    """

    id: str
    kind: str
    name: str
    arn: str = ""
    state: str = ""
    problem: str = ""
    facts: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Edge:
    """Records go from one resource to another; `via` is the resource that carries them, such as a mapping, or empty."""

    start: str
    end: str
    via: str = ""


@dataclass(slots=True)
class Inventory:
    """All resources of an account by id, the edges between them as keys, and the calls that were refused."""

    resources: dict[str, Resource] = field(default_factory=dict[str, Resource])
    edges: dict[Edge, None] = field(default_factory=dict[Edge, None])
    refused: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def add(self, kind: str, name: str, **values: Any) -> Resource:
        """Add a resource."""
        resource = Resource(f"{kind}:{name}", kind, name, **values)
        self.resources[resource.id] = resource
        return resource

    def connect(self, start: str, end: str, via: str = "") -> None:
        """Add an edge; an end that was not listed, such as a bucket, becomes a resource."""
        for one in (start, end):
            if one and one not in self.resources:
                kind, _, name = one.partition(":")
                self.add(kind, name)
        if start and end:
            self.edges[Edge(start, end, via)] = None

    def signature(self) -> int:
        """Return a number that changes when a resource, its state or an edge does."""
        rows = [repr(asdict(one)) for one in self.resources.values()]
        return hash((tuple(rows), tuple(self.edges), repr(self.refused)))


# By the service and the kind in an ARN: the kind of the resource on the page.
_KINDS = {
    "kinesis": "stream",
    "lambda": "function",
    "firehose": "delivery",
    "sqs": "queue",
    "s3": "bucket",
    "sns": "topic",
    "dynamodb": "table",
    "events": "bus",
    "states": "machine",
    "logs": "log group",
    "pipes": "pipe",
}


def id_of(arn: str) -> str:
    """Return the id of the resource with an ARN; empty for text that is no ARN."""
    parts = arn.split(":", 5)
    if len(parts) < 6:
        return ""
    service, rest = parts[2], parts[5]
    kind = _KINDS.get(service, service)
    if service == "kinesis":
        if rest.startswith("queue/"):
            return f"kinesis queue:{rest.removeprefix('queue/')}"
        if rest.startswith("channel/"):
            return f"channel:{rest.removeprefix('channel/')}"
        return f"{kind}:{rest.removeprefix('stream/').partition('/')[0]}"
    if service == "lambda":
        return f"{kind}:{rest.removeprefix('function:').partition(':')[0]}"
    if service == "dynamodb":
        return f"{kind}:{rest.removeprefix('table/').partition('/')[0]}"
    if service == "events" and rest.startswith("rule/"):
        return f"rule:{rest.removeprefix('rule/')}"
    if service == "s3":
        return f"{kind}:{rest.partition('/')[0]}"
    return f"{kind}:{name_of(arn)}"


def read_inventory(account: Account) -> Inventory:
    """Read an account's resources. Refused calls are named in `refused`, and what they list is missing."""
    inventory = Inventory()
    reader = Reader(account)
    for read in _READS:
        read(reader, inventory)
    inventory.refused = reader.refusals()
    return inventory


def _streams(reader: Reader, inventory: Inventory) -> None:
    summaries = reader.pages(
        "kinesis", "ListStreams", "StreamSummaries", token=next_token("NextToken")
    )
    for summary in summaries:
        name = summary["StreamName"]
        described = reader.call("kinesis", "DescribeStreamSummary", StreamName=name)
        facts = described.get("StreamDescriptionSummary", {})
        inventory.add(
            "stream",
            name,
            arn=summary["StreamARN"],
            state=summary["StreamStatus"],
            facts={
                "shards": facts.get("OpenShardCount", 0),
                "mode": summary.get("StreamModeDetails", {}).get("StreamMode", "PROVISIONED"),
                "retentionHours": facts.get("RetentionPeriodHours"),
            },
        )
    for queue in reader.pages(
        "kinesis", "ListQueues", "QueueSummaries", token=next_token("NextToken")
    ):
        arn = queue.get("QueueARN", "")
        resource = inventory.add(
            "kinesis queue", queue["QueueName"], arn=arn, state=queue.get("QueueStatus", "")
        )
        for one in queue.get("Streams") or ():
            inventory.connect(id_of(one.get("StreamARN", "")), resource.id)
    for channel in reader.pages(
        "kinesis", "ListChannels", "ChannelSummaries", token=next_token("NextToken")
    ):
        arn, state = channel["ChannelARN"], channel["ChannelStatus"]
        reason = channel.get("ChannelStatusReason", "")
        resource = inventory.add(
            "channel",
            channel["ChannelName"],
            arn=arn,
            state=state,
            problem=reason if "FAILED" in state else "",
            facts={"destination": channel["ChannelDestinationType"]},
        )
        for one in channel["Streams"]:
            inventory.connect(id_of(one["StreamARN"]), resource.id)
        described = reader.call("kinesis", "DescribeChannel", ChannelARN=arn)
        s3 = described.get("ChannelDescription", {}).get("S3DestinationConfiguration", {})
        inventory.connect(
            resource.id, id_of(s3.get("StorageConfiguration", {}).get("BucketARN", ""))
        )


def _functions(reader: Reader, inventory: Inventory) -> None:
    token = next_token("NextMarker", "Marker")
    for function in reader.pages("lambda", "ListFunctions", "Functions", token=token):
        inventory.add(
            "function",
            function["FunctionName"],
            arn=function["FunctionArn"],
            state=function.get("State", ""),
            facts={
                "runtime": function.get("Runtime", ""),
                "memoryMiB": function.get("MemorySize"),
                "timeoutS": function.get("Timeout"),
            },
        )


def _mappings(reader: Reader, inventory: Inventory) -> None:
    token = next_token("NextMarker", "Marker")
    listed = reader.pages("lambda", "ListEventSourceMappings", "EventSourceMappings", token=token)
    for mapping in listed:
        source, function = mapping.get("EventSourceArn", ""), id_of(mapping["FunctionArn"])
        result = mapping.get("LastProcessingResult", "")
        resource = inventory.add(
            "mapping",
            mapping["UUID"],
            arn=mapping.get("EventSourceMappingArn", ""),
            state=mapping.get("State", ""),
            problem=result if result.startswith("PROBLEM") else "",
            facts={
                "source": id_of(source),
                "function": function,
                "lastResult": result,
                "batchSize": mapping.get("BatchSize"),
                "lanes": mapping.get("ParallelizationFactor", 1),
            },
        )
        inventory.connect(id_of(source), function, resource.id)
        failed = mapping.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination", "")
        if failed:
            inventory.connect(function, id_of(failed), resource.id)


def _deliveries(reader: Reader, inventory: Inventory) -> None:
    names: list[str] = []
    while True:
        start = {"ExclusiveStartDeliveryStreamName": names[-1]} if names else {}
        answer = reader.call("firehose", "ListDeliveryStreams", Limit=100, **start)
        names += answer.get("DeliveryStreamNames", ())
        if not answer.get("HasMoreDeliveryStreams") or len(names) >= MOST_OF_A_KIND:
            break
    for name in names:
        described = reader.call("firehose", "DescribeDeliveryStream", DeliveryStreamName=name)
        facts = described.get("DeliveryStreamDescription", {})
        failure = facts.get("FailureDescription", {}).get("Details", "")
        resource = inventory.add(
            "delivery",
            name,
            arn=facts.get("DeliveryStreamARN", ""),
            state=facts.get("DeliveryStreamStatus", ""),
            problem=failure,
            facts={"type": facts.get("DeliveryStreamType", "")},
        )
        source = facts.get("Source", {}).get("KinesisStreamSourceDescription", {})
        if source:
            inventory.connect(id_of(source.get("KinesisStreamARN", "")), resource.id)
        for destination in facts.get("Destinations", ()):
            s3 = destination.get("ExtendedS3DestinationDescription") or destination.get(
                "S3DestinationDescription", {}
            )
            inventory.connect(resource.id, id_of(s3.get("BucketARN", "")))
            for processor in s3.get("ProcessingConfiguration", {}).get("Processors", ()):
                for parameter in processor.get("Parameters", ()):
                    if parameter["ParameterName"] == "LambdaArn":
                        inventory.connect(resource.id, id_of(parameter["ParameterValue"]))


def _queues(reader: Reader, inventory: Inventory) -> None:
    for url in reader.pages("sqs", "ListQueues", "QueueUrls", token=next_token("NextToken")):
        answer = reader.call("sqs", "GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])
        attributes = answer.get("Attributes", {})
        waiting = int(attributes.get("ApproximateNumberOfMessages", 0))
        in_flight = int(attributes.get("ApproximateNumberOfMessagesNotVisible", 0))
        inventory.add(
            "queue",
            name_of(url),
            arn=attributes.get("QueueArn", ""),
            facts={"url": url, "messages": waiting, "inFlight": in_flight},
        )
        dead_letters = _dead_letter_arn(attributes.get("RedrivePolicy", ""))
        inventory.connect(f"queue:{name_of(url)}", id_of(dead_letters))


def _dead_letter_arn(policy: str) -> str:
    try:
        return str(as_mapping(parse_json(policy or "{}")).get("deadLetterTargetArn", ""))
    except ValueError:
        return ""


def _topics(reader: Reader, inventory: Inventory) -> None:
    for topic in reader.pages("sns", "ListTopics", "Topics", token=next_token("NextToken")):
        inventory.add("topic", name_of(topic["TopicArn"]), arn=topic["TopicArn"])
    listed = reader.pages(
        "sns", "ListSubscriptions", "Subscriptions", token=next_token("NextToken")
    )
    for one in listed:
        # Another subscriber, such as an address, is no resource of the pipeline.
        inventory.connect(id_of(one["TopicArn"]), id_of(one.get("Endpoint", "")))


def _tables(reader: Reader, inventory: Inventory) -> None:
    token = next_token("LastEvaluatedTableName", "ExclusiveStartTableName")
    for name in reader.pages("dynamodb", "ListTables", "TableNames", token=token):
        described = reader.call("dynamodb", "DescribeTable", TableName=name).get("Table", {})
        keys = [key["AttributeName"] for key in described.get("KeySchema", ())]
        inventory.add(
            "table",
            name,
            arn=described.get("TableArn", ""),
            state=described.get("TableStatus", ""),
            facts={"items": described.get("ItemCount"), "leases": keys == ["leaseKey"]},
        )


def _pipes(reader: Reader, inventory: Inventory) -> None:
    for pipe in reader.pages("pipes", "ListPipes", "Pipes", token=next_token("NextToken")):
        state = pipe.get("CurrentState", "")
        resource = inventory.add(
            "pipe",
            pipe["Name"],
            arn=pipe.get("Arn", ""),
            state=state,
            problem=pipe.get("StateReason", "") if "FAILED" in state else "",
        )
        inventory.connect(id_of(pipe.get("Source", "")), resource.id)
        inventory.connect(resource.id, id_of(pipe.get("Target", "")))


def _rules(reader: Reader, inventory: Inventory) -> None:
    """Read the rules of every bus; one of a bus other than the default has the bus in its name, as in its ARN."""
    token = next_token("NextToken")
    buses = list(reader.pages("events", "ListEventBuses", "EventBuses", token=token))
    for bus in [one["Name"] for one in buses] or ["default"]:
        for rule in reader.pages("events", "ListRules", "Rules", token=token, EventBusName=bus):
            name = rule["Name"] if bus == "default" else f"{bus}/{rule['Name']}"
            arn, state = rule.get("Arn", ""), rule.get("State", "")
            resource = inventory.add("rule", name, arn=arn, state=state)
            if bus != "default":
                inventory.connect(f"bus:{bus}", resource.id)
            where = {"Rule": rule["Name"], "EventBusName": bus}
            targets = reader.pages("events", "ListTargetsByRule", "Targets", token=token, **where)
            for target in targets:
                inventory.connect(resource.id, id_of(target["Arn"]))


_LIVE_CLUSTERS = ["STARTING", "BOOTSTRAPPING", "RUNNING", "WAITING"]


def _jobs(reader: Reader, inventory: Inventory) -> None:
    token = next_token("Marker")
    clusters = reader.pages(
        "emr", "ListClusters", "Clusters", token=token, ClusterStates=_LIVE_CLUSTERS
    )
    for cluster in clusters:
        steps = reader.call("emr", "ListSteps", ClusterId=cluster["Id"]).get("Steps", ())
        for step in steps[:50]:
            status = step.get("Status", {})
            failure = status.get("FailureDetails", {})
            inventory.add(
                "job",
                f"{cluster['Id']}/{step['Id']}",
                state=status.get("State", ""),
                problem=failure.get("Message", failure.get("Reason", "")),
                facts={
                    "title": step.get("Name", ""),
                    "cluster": cluster.get("Name", ""),
                    "startedMs": milliseconds(status.get("Timeline", {}).get("StartDateTime")),
                },
            )
    applications = reader.pages(
        "emr-serverless", "ListApplications", "applications", token=next_token("nextToken")
    )
    for application in applications:
        runs = reader.call("emr-serverless", "ListJobRuns", applicationId=application["id"])
        for run in runs.get("jobRuns", ())[:50]:
            state = run.get("state", "")
            inventory.add(
                "job",
                f"{application['id']}/{run['id']}",
                arn=run.get("arn", ""),
                state=state,
                problem=run.get("stateDetails", "") if state == "FAILED" else "",
                facts={
                    "title": run.get("name") or run["id"],
                    "cluster": application.get("name", application["id"]),
                    "startedMs": milliseconds(run.get("createdAt")),
                },
            )


def _stacks(reader: Reader, inventory: Inventory) -> None:
    for stack in reader.pages(
        "cloudformation", "DescribeStacks", "Stacks", token=next_token("NextToken")
    ):
        state = stack["StackStatus"]
        inventory.add(
            "stack",
            stack["StackName"],
            arn=stack.get("StackId", ""),
            state=state,
            problem=stack.get("StackStatusReason", state)
            if "FAILED" in state or "ROLLBACK" in state
            else "",
        )


_READS: tuple[Callable[[Reader, Inventory], None], ...] = (
    _streams,
    _functions,
    _mappings,
    _deliveries,
    _queues,
    _topics,
    _tables,
    _pipes,
    _rules,
    _jobs,
    _stacks,
)
