"""What the page of one resource shows: a stream, a function, a delivery, a job, a stack."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from headrace.core.ports import AfterSequence, Position
from headrace.dashboard.account import Account, CallRefused, Reader, milliseconds, next_token
from headrace.dashboard.inventory import Inventory
from headrace.dashboard.objects import MOST_OBJECTS, newest_objects, s3_settings
from headrace.dashboard.records import lease_tables, list_shards
from headrace.store.sequence import InvalidSequence, parse

MOST_LOG_LINES = 200
# How many steps the heat over time has: fewer for many shards, of which each costs a look-up.
LEAST_HEAT_STEPS, MOST_HEAT_STEPS, MOST_HEAT_CELLS = 6, 120, 6_000


class Local(Protocol):
    """What only this cloud knows beside AWS's answers; AWS's own page goes without. Thread-safe."""

    def positions(self, stream: str, consumer: str) -> dict[str, dict[str, Any]]:
        """Return waiting records and lag of a consumer by shard id."""
        ...

    def behind(self, stream: str, shard_id: str, position: Position) -> dict[str, Any] | None:
        """Return waiting records and lag at a position; None for one that is not of the stream."""
        ...

    def counts_over_time(self, stream: str, from_ms: int, to_ms: int, steps: int) -> list[int]:
        """Return how many records arrived in each of `steps` equal spans."""
        ...

    def counts_by_shard(
        self, stream: str, from_ms: int, to_ms: int, steps: int
    ) -> dict[str, list[int]]:
        """Return the same by shard id, of the shards that got any."""
        ...

    def traces(self, function: str, sequence: str | None) -> list[dict[str, Any]]:
        """Return the batch trees of a function's mappings, or those of one record."""
        ...

    def durations(self, function: str) -> list[dict[str, int]]:
        """Return how many invocations lasted up to each bound, since the start."""
        ...

    def queries(self, holder: str, job: str) -> list[dict[str, Any]]:
        """Return what Spark's event log says of the streaming queries of a job that exists."""
        ...

    def fidelity(self, stack: str) -> list[Mapping[str, str]]:
        """Return what a stack asks for that is only stored or ignored."""
        ...

    def permissions(self) -> dict[str, Any]:
        """Return what AWS would deny."""
        ...


def stream_detail(
    account: Account, inventory: Inventory, name: str, local: Local | None
) -> dict[str, Any]:
    """Return a stream: shards with ranges and parents, consumers with their positions. Raises CallRefused."""
    described = account.call("kinesis", "DescribeStreamSummary", StreamName=name)
    summary = described["StreamDescriptionSummary"]
    reader = Reader(account)
    shards = _shards(reader, name)
    me = f"stream:{name}"
    consumers: list[dict[str, Any]] = []
    for edge in inventory.edges:
        if edge.start == me:
            via = edge.via or edge.end
            rows = local.positions(name, via) if local else {}
            consumers.append({"id": via, "target": edge.end, "shards": rows})
    listed = reader.pages(
        "kinesis",
        "ListStreamConsumers",
        "Consumers",
        token=next_token("NextToken"),
        StreamARN=summary["StreamARN"],
    )
    consumers += [
        {
            "id": f"fan-out:{one['ConsumerName']}",
            "target": "",
            "shards": local.positions(name, f"fan-out:{one['ConsumerName']}") if local else {},
            "state": one["ConsumerStatus"],
        }
        for one in listed
    ]
    tables = [one.name for one in inventory.resources.values() if one.facts.get("leases")]
    return {
        "name": name,
        "arn": summary["StreamARN"],
        "state": summary["StreamStatus"],
        "mode": summary.get("StreamModeDetails", {}).get("StreamMode", "PROVISIONED"),
        "retentionHours": summary.get("RetentionPeriodHours"),
        "encryption": summary.get("EncryptionType", "NONE"),
        "createdMs": milliseconds(summary.get("StreamCreationTimestamp")),
        "shards": shards,
        "consumers": consumers,
        "leases": [
            _with_lag(one, name, local) for one in lease_tables(reader, tables, name, shards)
        ],
        "refused": reader.refusals(),
    }


def _with_lag(lease: dict[str, Any], stream: str, local: Local | None) -> dict[str, Any]:
    """Return a lease with what waits after its checkpoint; on AWS only with the checkpoint's own time."""
    number = lease["checkpoint"]
    row = None
    if local is not None and number.isdecimal():
        row = local.behind(stream, lease["shardId"], AfterSequence(number))
    return {
        **lease,
        "checkpointMs": _read_time_ms(number, is_creation=False),
        "waiting": None,
        "lagMs": None,
        **(row or {}),
    }


def _shards(reader: Reader, stream: str) -> list[dict[str, Any]]:
    shards = [_shard(shard) for shard in list_shards(reader, stream)]
    closings: dict[str, int] = {}
    for shard in shards:
        for parent in shard["parents"]:
            if shard["openedMs"] is not None:
                closings[parent] = min(closings.get(parent, shard["openedMs"]), shard["openedMs"])
    for shard in shards:
        # A shard ends when its children begin; its own last number tells only the second.
        shard["closedMs"] = closings.get(shard["shardId"], shard["closedMs"])
    return shards


def _read_time_ms(number: str | None, *, is_creation: bool) -> int | None:
    """Return the time in a sequence number, in milliseconds; None for one of another layout (see `Sequence`)."""
    try:
        parts = parse(number or "")
    except InvalidSequence:
        return None
    return (parts.base.created_s if is_creation else parts.seconds) * 1000


def _shard(shard: Mapping[str, Any]) -> dict[str, Any]:
    keys, numbers = shard["HashKeyRange"], shard["SequenceNumberRange"]
    parents = [shard.get("ParentShardId"), shard.get("AdjacentParentShardId")]
    return {
        "shardId": shard["ShardId"],
        "startingHashKey": keys["StartingHashKey"],
        "endingHashKey": keys["EndingHashKey"],
        "parents": [parent for parent in parents if parent],
        "isOpen": "EndingSequenceNumber" not in numbers,
        "startingSequenceNumber": numbers["StartingSequenceNumber"],
        "openedMs": _read_time_ms(numbers["StartingSequenceNumber"], is_creation=True),
        "closedMs": _read_time_ms(numbers.get("EndingSequenceNumber"), is_creation=False),
    }


def shards_over_time(
    account: Account, stream: str, span_ms: int | None, now_ms: int, local: Local | None
) -> dict[str, Any]:
    """Return the shards that were open within a span until now, or ever, with what each got a second in equal steps.

    `rates` is by shard id; a shard that got nothing is missing, and so are all where the account has no such figures.
    Raises CallRefused.
    """
    account.call("kinesis", "DescribeStreamSummary", StreamName=stream)
    reader = Reader(account)
    shards = _shards(reader, stream)
    oldest_ms = min((one["openedMs"] for one in shards if one["openedMs"] is not None), default=0)
    from_ms = min(now_ms - 1_000, max(oldest_ms, 0 if span_ms is None else now_ms - span_ms))
    shards = [one for one in shards if one["closedMs"] is None or one["closedMs"] >= from_ms]
    steps = max(LEAST_HEAT_STEPS, min(MOST_HEAT_STEPS, MOST_HEAT_CELLS // max(1, len(shards))))
    counts = {} if local is None else local.counts_by_shard(stream, from_ms, now_ms, steps)
    step_s = (now_ms - from_ms) / steps / 1000
    return {
        "fromMs": from_ms,
        "toMs": now_ms,
        "steps": steps,
        "isKnown": local is not None,
        "shards": shards,
        "rates": {key: [round(one / step_s, 2) for one in row] for key, row in counts.items()},
        "refused": reader.refusals(),
    }


def timeline(
    account: Account, stream: str, from_ms: int, to_ms: int, steps: int, local: Local | None
) -> dict[str, Any]:
    """Return how many records arrived over time. Raises CallRefused."""
    if local is not None:
        counts = local.counts_over_time(stream, from_ms, to_ms, steps)
        return {"fromMs": from_ms, "toMs": to_ms, "counts": counts}
    period_s = max(60, -(-(to_ms - from_ms) // 1000 // steps // 60) * 60)
    answer = account.call(
        "cloudwatch",
        "GetMetricStatistics",
        Namespace="AWS/Kinesis",
        MetricName="IncomingRecords",
        Dimensions=[{"Name": "StreamName", "Value": stream}],
        StartTime=datetime.fromtimestamp(from_ms / 1000, UTC),
        EndTime=datetime.fromtimestamp(to_ms / 1000, UTC),
        Period=period_s,
        Statistics=["Sum"],
    )
    counts = [0] * steps
    for point in answer.get("Datapoints", ()):
        at_ms = milliseconds(point["Timestamp"]) or 0
        step = min(steps - 1, max(0, (at_ms - from_ms) * steps // max(1, to_ms - from_ms)))
        counts[step] += round(point["Sum"])
    return {"fromMs": from_ms, "toMs": to_ms, "counts": counts}


def function_detail(account: Account, name: str, local: Local | None) -> dict[str, Any]:
    """Return a function: settings, mappings with batch trees, newest log lines, durations. Raises CallRefused."""
    answer = account.call("lambda", "GetFunctionConfiguration", FunctionName=name)
    reader = Reader(account)
    mappings = reader.call("lambda", "ListEventSourceMappings", FunctionName=name)
    return {
        "name": name,
        "arn": answer.get("FunctionArn", ""),
        "state": answer.get("State", ""),
        "runtime": answer.get("Runtime", ""),
        "memoryMiB": answer.get("MemorySize"),
        "timeoutS": answer.get("Timeout"),
        "mappings": [
            {
                "uuid": one["UUID"],
                "source": one.get("EventSourceArn", ""),
                "state": one.get("State", ""),
                "lastResult": one.get("LastProcessingResult", ""),
                "batchSize": one.get("BatchSize"),
                "retries": one.get("MaximumRetryAttempts"),
                "onFailure": one.get("DestinationConfig", {})
                .get("OnFailure", {})
                .get("Destination", ""),
            }
            for one in mappings.get("EventSourceMappings", ())
        ],
        "batches": [] if local is None else local.traces(name, None),
        "durations": [] if local is None else local.durations(name),
        "logs": _log_lines(reader, f"/aws/lambda/{name}"),
        "refused": reader.refusals(),
    }


def _log_lines(reader: Reader, group: str) -> list[dict[str, Any]]:
    try:
        streams = reader.account.call(
            "logs",
            "DescribeLogStreams",
            logGroupName=group,
            orderBy="LastEventTime",
            descending=True,
            limit=3,
        )
    except CallRefused as refusal:
        if refusal.code != "ResourceNotFoundException":
            reader.refused.append(refusal)
        return []
    lines: list[dict[str, Any]] = []
    for one in streams.get("logStreams", ()):
        events = reader.call(
            "logs",
            "GetLogEvents",
            logGroupName=group,
            logStreamName=one["logStreamName"],
            limit=MOST_LOG_LINES,
        )
        lines += [
            {"timeMs": event["timestamp"], "text": event["message"][:10_000]}
            for event in events.get("events", ())
        ]
    return sorted(lines, key=lambda line: line["timeMs"])[-MOST_LOG_LINES:]


def delivery_detail(account: Account, name: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return a delivery stream: destination, buffers, newest objects. Raises CallRefused."""
    answer = account.call("firehose", "DescribeDeliveryStream", DeliveryStreamName=name)
    facts = answer["DeliveryStreamDescription"]
    reader = Reader(account)
    s3 = s3_settings(facts)
    bucket = s3.get("BucketARN", "").rpartition(":")[2]
    prefix = s3.get("Prefix", "").partition("!")[0]
    objects = newest_objects(reader, bucket, prefix)[:MOST_OBJECTS] if bucket else []
    return {
        "name": name,
        "arn": facts["DeliveryStreamARN"],
        "state": facts["DeliveryStreamStatus"],
        "type": facts.get("DeliveryStreamType", ""),
        "bucket": bucket,
        "prefix": s3.get("Prefix", ""),
        "errorPrefix": s3.get("ErrorOutputPrefix", ""),
        "format": "columns" if s3.get("DataFormatConversionConfiguration") else "as sent",
        "compression": s3.get("CompressionFormat", ""),
        "buffer": s3.get("BufferingHints", {}),
        "figures": dict(figures),
        "objects": objects,
        "refused": reader.refusals(),
    }


def job_detail(account: Account, holder: str, job: str, local: Local | None) -> dict[str, Any]:
    """Return a step of a cluster, or a run of an EMR Serverless application. Raises CallRefused."""
    if holder.startswith("j-"):
        step = account.call("emr", "DescribeStep", ClusterId=holder, StepId=job)["Step"]
        status = step.get("Status", {})
        times = status.get("Timeline", {})
        failure = status.get("FailureDetails", {})
        return {
            "id": job,
            "holder": holder,
            "title": step.get("Name", ""),
            "state": status.get("State", ""),
            "problem": failure.get("Message", failure.get("Reason", "")),
            "arguments": step.get("Config", {}).get("Args", []),
            "startedMs": milliseconds(times.get("StartDateTime")),
            "endedMs": milliseconds(times.get("EndDateTime")),
            "page": f"/_headrace/emr/{holder}/{job}" if account.source == "headrace" else "",
            "queries": [] if local is None else local.queries(holder, job),
        }
    run = account.call("emr-serverless", "GetJobRun", applicationId=holder, jobRunId=job)["jobRun"]
    driver = run.get("jobDriver", {}).get("sparkSubmit", {})
    return {
        "id": job,
        "holder": holder,
        "title": run.get("name") or job,
        "state": run.get("state", ""),
        "problem": run.get("stateDetails", ""),
        "arguments": [driver.get("entryPoint", ""), *driver.get("entryPointArguments", [])],
        "startedMs": milliseconds(run.get("createdAt")),
        "endedMs": milliseconds(run.get("updatedAt")),
        "page": f"/_headrace/emr-serverless/{holder}/{job}" if account.source == "headrace" else "",
        "queries": [] if local is None else local.queries(holder, job),
    }


def stack_detail(account: Account, name: str, local: Local | None) -> dict[str, Any]:
    """Return a stack: resources, events, and what is stored without effect. Raises CallRefused."""
    stack = account.call("cloudformation", "DescribeStacks", StackName=name)["Stacks"][0]
    reader = Reader(account)
    resources = reader.pages(
        "cloudformation",
        "ListStackResources",
        "StackResourceSummaries",
        token=next_token("NextToken"),
        StackName=name,
    )
    events = reader.call("cloudformation", "DescribeStackEvents", StackName=name)
    return {
        "name": name,
        "arn": stack["StackId"],
        "state": stack["StackStatus"],
        "reason": stack.get("StackStatusReason", ""),
        "createdMs": milliseconds(stack["CreationTime"]),
        "resources": [
            {
                "logicalId": one["LogicalResourceId"],
                "physicalId": one.get("PhysicalResourceId", ""),
                "type": one["ResourceType"],
                "state": one["ResourceStatus"],
            }
            for one in resources
        ],
        "events": [
            {
                "timeMs": milliseconds(one["Timestamp"]),
                "logicalId": one.get("LogicalResourceId", ""),
                "state": one.get("ResourceStatus", ""),
                "reason": one.get("ResourceStatusReason", ""),
            }
            for one in events.get("StackEvents", ())[:100]
        ],
        "withoutEffect": [] if local is None else local.fidelity(name),
        "outputs": [
            {"key": one["OutputKey"], "value": one["OutputValue"]}
            for one in stack.get("Outputs", ())
        ],
        "refused": reader.refusals(),
    }
