"""Writes the log records of a pipe's executions to the destinations in its LogConfiguration.

Documented: eb-pipes-logs.html and eb-pipes-logs-schema.html of
https://docs.aws.amazon.com/eventbridge/latest/userguide/, and that records are JSON whatever the OutputFormat
(API_S3LogDestinationParameters.html). Assumed: the names of log streams and objects.
The cloud itself writes, as AWS's log delivery does: the pipe's role needs no permission for it, but who sets the
destinations does (documented: AWS-logs-infrastructure-V2-service-specific.html of CloudWatch Logs).
"""

from __future__ import annotations

import bisect
import contextlib
import json
import logging
import uuid
from collections.abc import Generator, Mapping
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.protocols.validate import validate
from headrace.core.ports import ControlPlane
from headrace.core.values import moment

log = logging.getLogger(__name__)

# Documented: a record has at most 256 KB; CloudWatch Logs counts 26 bytes more for each.
MOST_BYTES = (256 << 10) - 26
# One PutLogEvents takes 1 MiB, one PutRecordBatch 4 MiB and 500 records.
_MOST_WAITING_BYTES, _MOST_WAITING = 512 << 10, 500
# In the order in which AWS truncates them (documented).
_EXECUTION_DATA = ("payload", "awsRequest", "awsResponse")
_MOST_ERROR = 8 << 10
_ANY_ROLE = "arn:aws:iam::000000000000:role/any"
_LEVELS = ("OFF", "ERROR", "INFO", "TRACE")
# The steps of level INFO; a failure is of level ERROR, any other step of level TRACE.
_INFO = {
    "EXECUTION_STARTED",
    "EXECUTION_SUCCEEDED",
    "ENRICHMENT_STAGE_ENTERED",
    "ENRICHMENT_STAGE_SUCCEEDED",
    "TARGET_STAGE_ENTERED",
    "TARGET_STAGE_SUCCEEDED",
}


def check_configuration(configuration: Any, pipe: Mapping[str, Any], account: str) -> None:
    """Refuse a LogConfiguration that AWS would refuse, and one of another account. Raises AwsError.

    `pipe`: the required members of UpdatePipe.
    """
    request = {**pipe, "LogConfiguration": configuration}
    validate("pipes", "UpdatePipe", request, code="ValidationException")
    members = cast("Mapping[str, Mapping[str, str]]", configuration)
    arns = (
        members.get("CloudwatchLogsLogDestination", {}).get("LogGroupArn"),
        members.get("FirehoseLogDestination", {}).get("DeliveryStreamArn"),
    )
    owner = members.get("S3LogDestination", {}).get("BucketOwner")
    owners = {*(arn.split(":")[4] for arn in arns if arn), *([owner] if owner else [])}
    if owners - {account}:
        # On AWS a bucket's policy may let in the logs of other accounts.
        raise AwsError(
            "ValidationException",
            "headrace's pipes write logs to destinations of their own account only.",
        )


def usable_configuration(pipe_arn: str, configuration: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a stored pipe's LogConfiguration; none if it was stored by a version that did not check it."""
    parts = pipe_arn.split(":")
    required = {"Name": parts[5].rpartition("/")[2], "RoleArn": _ANY_ROLE}
    try:
        if configuration:
            check_configuration(configuration, required, parts[4])
    except AwsError as error:
        log.warning("%s writes no logs: %s", pipe_arn, error)
        return {}
    return configuration


def level_of(step: str) -> str:
    """Return the lowest level at which a step is logged."""
    if step.endswith("_FAILED"):
        return "ERROR"
    return "INFO" if step in _INFO else "TRACE"


class ExecutionLog:
    """The log of one execution: one batch's way through a pipe."""

    def __init__(
        self, pipe: str, configuration: Mapping[str, Any], control: ControlPlane, now_ms: int
    ) -> None:
        """Take the pipe's ARN and LogConfiguration, and the time of the execution."""
        self._pipe, self._configuration = pipe, configuration
        self._control, self._now_ms = control, now_ms
        self._level = str(configuration.get("Level") or "OFF")
        self._has_data = "ALL" in (configuration.get("IncludeExecutionData") or ())
        self._id = str(uuid.uuid4())
        self._waiting: list[str] = []
        self._waiting_bytes = 0
        self._flushes = 0
        self._has_delivered = False

    @contextlib.contextmanager
    def step(self, name: str, begin: str = "STARTED", **at_begin: Any) -> Generator[dict[str, Any]]:
        """Log a step's begin and its end, which has the execution data that the caller puts into the yielded dict.

        A value may be a function that returns it, called only if the log has execution data.
        """
        self.add(f"{name}_{begin}", at_begin)
        data: dict[str, Any] = {}
        try:
            yield data
        except Exception as error:
            is_partial = getattr(error, "failed", None) or (
                self._has_delivered and name in ("TARGET_STAGE", "EXECUTION")
            )
            end = "PARTIALLY_FAILED" if is_partial else "FAILED"
            self.add(f"{name}_{end}", data, error)
            raise
        self._has_delivered |= name == "TARGET_INVOCATION"
        self.add(f"{name}_SUCCEEDED", data)

    def add(
        self, step: str, data: Mapping[str, Any] | None = None, error: Exception | None = None
    ) -> None:
        """Log a step, if the pipe's level includes it."""
        if _LEVELS.index(level_of(step)) > _LEVELS.index(self._level):
            return
        record: dict[str, Any] = {
            "resourceArn": self._pipe,
            "timestamp": self._now_ms,
            "executionId": self._id,
            "messageType": step,
            "logLevel": self._level,
        }
        if self._has_data:
            record |= {name: _text(value) for name, value in (data or {}).items()}
        if error is not None:
            record["error"] = _error(error)
        line = _bounded(record)
        self._waiting.append(line)
        self._waiting_bytes += len(line)
        if self._waiting_bytes >= _MOST_WAITING_BYTES or len(self._waiting) >= _MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        """Write the waiting records; those that a destination refuses are lost there, as on AWS."""
        lines, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not lines:
            return
        self._flushes += 1
        for destination, write in (
            ("CloudwatchLogsLogDestination", self._write_events),
            ("FirehoseLogDestination", self._write_records),
            ("S3LogDestination", self._write_object),
        ):
            settings = self._configuration.get(destination)
            if not settings:
                continue
            try:
                write(settings, lines)
            except AwsError as error:
                log.warning("%s is not logged in its %s: %s", self._pipe, destination, error)

    def _write_events(self, settings: Mapping[str, Any], lines: list[str]) -> None:
        parts = str(settings["LogGroupArn"]).split(":")
        stream = f"{self._pipe.rpartition('/')[2]}/{moment(self._now_ms):%Y/%m/%d}"
        where = {"logGroupName": parts[6], "logStreamName": stream}
        try:
            self._call(parts, "logs", "CreateLogStream", where)
        except AwsError as error:
            if error.code != "ResourceAlreadyExistsException":
                raise
        events = [{"timestamp": self._now_ms, "message": line} for line in lines]
        self._call(parts, "logs", "PutLogEvents", {**where, "logEvents": events})

    def _write_records(self, settings: Mapping[str, Any], lines: list[str]) -> None:
        parts = str(settings["DeliveryStreamArn"]).split(":")
        params = {
            "DeliveryStreamName": parts[5].rpartition("/")[2],
            "Records": [{"Data": f"{line}\n".encode()} for line in lines],
        }
        answer = self._call(parts, "firehose", "PutRecordBatch", params)
        if failed := answer.get("FailedPutCount"):
            log.warning("%s is not logged: Firehose refused %d records", self._pipe, failed)

    def _write_object(self, settings: Mapping[str, Any], lines: list[str]) -> None:
        parts = self._pipe.split(":")
        prefix = str(settings.get("Prefix") or "").strip("/")
        name = parts[5].rpartition("/")[2]
        day = f"{moment(self._now_ms):%Y/%m/%d/%H}"
        path = ("AWSLogs", parts[4], "pipes", parts[3], name, day)
        key = "/".join([*filter(None, [prefix]), *path, f"{self._id}_{self._flushes}.json"])
        bucket = str(settings["BucketName"])
        own = self._call(parts, "s3", "ListBuckets", {"Prefix": bucket})["Buckets"]
        if all(one["Name"] != bucket for one in own):
            raise AwsError("AccessDenied", f"{bucket} is no bucket of account {parts[4]}.", 403)
        body = "".join(f"{line}\n" for line in lines).encode()
        self._call(parts, "s3", "PutObject", {"Bucket": bucket, "Key": key, "Body": body})

    def _call(
        self, parts: list[str], service: str, operation: str, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        return self._control.call(service, operation, params, account=parts[4], region=parts[3])


def _text(value: Any) -> str:
    if callable(value):
        value = value()
    return _plain(value) if isinstance(value, str | bytes) else json.dumps(value, default=_plain)


def _plain(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _error(error: Exception) -> dict[str, Any]:
    cause = error.__cause__
    status = {"httpStatusCode": cause.status} if isinstance(cause, AwsError) else {}
    return {**status, "message": str(error)[:_MOST_ERROR], "details": ""}


def _bounded(record: dict[str, Any]) -> str:
    """Return a record as JSON of at most `MOST_BYTES`, with execution data cut at its end where that is needed."""
    line = json.dumps(record)
    for name in _EXECUTION_DATA:
        if len(line) <= MOST_BYTES:
            break
        if name in record:
            record.setdefault("truncatedFields", []).append(name)
            room = MOST_BYTES - len(json.dumps({**record, name: ""}))
            record[name] = _cut(record[name], room)
            line = json.dumps(record)
    return line


def _cut(text: str, room: int) -> str:
    """Return the longest beginning of a text whose JSON has `room` characters beside its quotes."""
    text = text[: max(room, 0)]
    lengths = range(1, len(text) + 1)
    return text[: bisect.bisect_right(lengths, room, key=lambda n: len(json.dumps(text[:n])) - 2)]
