"""Delivers a pipe's batch of events: filters, enrichment, input templates, and the calls to the target.

Documented: eb-pipes-event-filtering.html, eb-pipes-input-transformation.html, eb-pipes-event-target.html of
https://docs.aws.amazon.com/eventbridge/latest/userguide/.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import base64
import binascii
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.evaluation import Budget, TooMuch
from headrace.core.event_patterns import (
    BadEventPattern,
    compile_pattern,
    matches_event,
    matches_payload,
)
from headrace.core.ports import CallerIdentity, ControlPlane, QueueMessage, StreamRecord
from headrace.core.values import as_mapping, moment, parse_json
from headrace.deliveries.input_templates import NoValue, compact, fill, fill_paths, first_value
from headrace.deliveries.outbox import NOT_RETRYABLE
from headrace.deliveries.targets import http_call, is_final, is_http, send, target_call
from headrace.services.pipes.execution_log import ExecutionLog

SESSION = "headrace-pipes"
# Targets that get a whole batch; the others get each event.
_WHOLE = ("lambda", "states")
_EMPTY: dict[str, Any] = {}


class PipeFailed(Exception):
    """A batch that was not delivered.

    `may_pass` says whether a retry may succeed; `is_internal`, that the service failed or was too busy: AWS counts no
    such try (documented: eb-pipes-error-troubleshooting.html).
    """

    def __init__(self, message: str, *, may_pass: bool = False, is_internal: bool = False) -> None:
        super().__init__(message)
        self.may_pass, self.is_internal = may_pass, is_internal

    def drop_delivered(self, events: list[dict[str, Any]], taken: set[str]) -> list[dict[str, Any]]:
        """Return the events that were not delivered; add the ids of the others to `taken`."""
        return events


class PartlyFailed(PipeFailed):
    """A batch of which the target did not take the events with these ids."""

    def __init__(
        self,
        message: str,
        failed: frozenset[str],
        *,
        may_pass: bool = True,
        is_internal: bool = False,
    ) -> None:
        super().__init__(message, may_pass=may_pass, is_internal=is_internal)
        self.failed = failed

    def drop_delivered(self, events: list[dict[str, Any]], taken: set[str]) -> list[dict[str, Any]]:
        """See `PipeFailed`."""
        taken.update(id_of(event) for event in events)
        taken -= self.failed
        return [event for event in events if id_of(event) in self.failed]


def id_of(event: Any) -> str:
    """Return the id by which a target names an event that it did not take (documented); empty for other events."""
    known = as_mapping(event)
    return str(known.get("messageId") or known.get("eventID") or "")


@dataclass(frozen=True, slots=True)
class Batch:
    """The settings of a pipe that delivering its batches needs."""

    arn: str
    source: str
    target: str
    role_arn: str
    enrichment: str = ""
    filters: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    target_parameters: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    log_configuration: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    enrichment_parameters: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)


def event_of_message(message: QueueMessage, source: str) -> dict[str, Any]:
    """Return a queue's message in a pipe's form."""
    return {
        "messageId": message.message_id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": dict(message.attributes),
        "messageAttributes": {
            name: {f"{key[:1].lower()}{key[1:]}": value for key, value in attribute.items()}
            for name, attribute in message.message_attributes.items()
        },
        "md5OfBody": message.body_md5,
        "eventSource": "aws:sqs",
        "eventSourceARN": source,
        "awsRegion": source.split(":")[3],
    }


def event_of_record(record: StreamRecord, shard_id: str, source: str, kind: str) -> dict[str, Any]:
    """Return a stream's record in a pipe's form."""
    if kind == "dynamodb":
        return cast("dict[str, Any]", json.loads(record.data))
    return {
        "kinesisSchemaVersion": "1.0",
        **({"partitionKey": record.partition_key} if record.partition_key else {}),
        "sequenceNumber": record.sequence_number,
        "data": base64.b64encode(record.data).decode(),
        "approximateArrivalTimestamp": record.approximate_arrival_ms / 1000,
        "eventSource": "aws:kinesis",
        "eventVersion": "1.0",
        "eventID": f"{shard_id}:{record.sequence_number}",
        "eventName": "aws:kinesis:record",
        "awsRegion": source.split(":")[3],
        "eventSourceARN": source,
    }


def deliver(batch: Batch, events: list[dict[str, Any]], control: ControlPlane, now_ms: int) -> None:
    """Filter, enrich and deliver; log that. Raises PipeFailed."""
    kept: list[Any] = [event for event in events if _passes(batch.filters, event)]
    if not kept:
        return
    # A target names events of the source: an enrichment may make up ids, or drop them.
    ids = frozenset(map(id_of, kept))
    execution = ExecutionLog(batch.arn, batch.log_configuration, control, now_ms)
    try:
        with execution.step("EXECUTION", payload=kept):
            if batch.enrichment:
                with execution.step("ENRICHMENT_STAGE", "ENTERED") as stage:
                    kept = _enrich_events(batch, kept, control, now_ms, execution)
                    stage["payload"] = kept
            if not kept:
                execution.add("TARGET_STAGE_SKIPPED")
                return
            with execution.step("TARGET_STAGE", "ENTERED") as stage:
                inputs = _deliver_events(batch, kept, control, now_ms, execution, ids)
                stage["payload"] = lambda: _join_inputs(inputs)
    finally:
        execution.flush()


def _deliver_events(
    batch: Batch,
    events: list[Any],
    control: ControlPlane,
    now_ms: int,
    execution: ExecutionLog,
    ids: frozenset[str],
) -> list[str]:
    """Send events to the target; return their inputs. Raises PipeFailed."""
    template = batch.target_parameters.get("InputTemplate")
    inputs = _transform("TARGET", template, events, batch, now_ms, execution)
    parameters = {
        name: value
        for kind, members in batch.target_parameters.items()
        if isinstance(members, dict) and kind != "InputTemplate"
        for name, value in members.items()
    }
    if batch.target.split(":")[2] in _WHOLE:
        _send(batch, _join_inputs(inputs), parameters, control, now_ms, execution, ids)
    else:
        for number, (event, text) in enumerate(zip(events, inputs, strict=True)):
            try:
                filled = _fill_paths(parameters, event, batch)
                _send(batch, text, filled, control, now_ms, execution)
            except PipeFailed as error:
                left = frozenset(map(id_of, events[number:]))
                if number and left <= ids - {""}:  # what the target has is not sent again
                    raise PartlyFailed(
                        str(error), left, may_pass=error.may_pass, is_internal=error.is_internal
                    ) from error
                raise
    return inputs


def _transform(
    stage: str,
    template: Any,
    events: list[Any],
    batch: Batch,
    now_ms: int,
    execution: ExecutionLog,
) -> list[str]:
    """Return the inputs for events; a step of the log if there is a template. Raises PipeFailed."""
    if not template:
        return _inputs(template, events, batch, now_ms)
    with execution.step(f"{stage}_TRANSFORMATION") as step:
        inputs = _inputs(template, events, batch, now_ms)
        step["payload"] = lambda: _join_inputs(inputs)
    return inputs


def _send(
    batch: Batch,
    payload: str,
    parameters: dict[str, Any],
    control: ControlPlane,
    now_ms: int,
    execution: ExecutionLog,
    ids: frozenset[str] = frozenset(),
) -> None:
    with execution.step("TARGET_INVOCATION") as step:
        if is_http(batch.target):
            step["awsRequest"] = payload
            step["awsResponse"] = _post_payload(batch.target, payload, parameters)
            return
        try:
            call = target_call(
                batch.target,
                payload,
                {"DetailType": f"Event from aws:{batch.source.split(':')[2]}", **parameters},
                source=f"Pipe {batch.arn.rpartition('/')[2]}",
                now_ms=now_ms,
                waits=parameters.get("InvocationType") != "FIRE_AND_FORGET",
            )
        except AwsError as error:
            raise PipeFailed(error.message) from error
        step["awsRequest"] = call.params
        if call.service == "logs":
            _make_log_stream(batch, call.params, control)
        output = _call_service(
            batch, batch.target, call.service, call.operation, call.params, control
        )
        step["awsResponse"] = output
        if output.get("FunctionError"):
            raise PipeFailed(f"{batch.target} failed: {output['FunctionError']}", may_pass=True)
        if call.operation == "StartSyncExecution":
            _check_execution(batch.target, output)
        _check_items(batch.target, output.get("Payload") or output.get("output"), ids)


def _check_items(arn: str, answer: Any, ids: frozenset[str]) -> None:
    """Raise PartlyFailed if a target's answer lists events that it did not take.

    Documented: eb-pipes-batching-concurrency.html. That an id of no event fails the whole batch is assumed, as Lambda's
    mappings have it.
    """
    try:
        items = as_mapping(parse_json(answer or b"null")).get("batchItemFailures")
    except ValueError:
        return
    if not ids or not isinstance(items, list) or not items:
        return
    failed = frozenset(str(as_mapping(one).get("itemIdentifier") or "") for one in items)
    if not failed <= ids - {""}:
        raise PipeFailed(f"{arn} names events that it did not get", may_pass=True)
    raise PartlyFailed(f"{arn} did not take {len(failed)} of {len(ids)} events", failed)


def _check_execution(arn: str, output: Mapping[str, Any]) -> None:
    """Raise PipeFailed unless an express execution succeeded."""
    if output.get("status") != "SUCCEEDED":
        why = output.get("cause") or output.get("error") or output.get("status")
        raise PipeFailed(f"{arn} failed: {why}", may_pass=True)


def _call_service(
    batch: Batch,
    arn: str,
    service: str,
    operation: str,
    params: dict[str, Any],
    control: ControlPlane,
) -> dict[str, Any]:
    """Call the service of a target or an enrichment, in the Region that its ARN names. Raises PipeFailed."""
    parts = batch.arn.split(":")
    try:
        return control.call(
            service,
            operation,
            params,
            account=parts[4],
            region=arn.split(":", 5)[3] or parts[3],
            acting=CallerIdentity(batch.role_arn, SESSION) if batch.role_arn else None,
        )
    except AwsError as error:
        is_not_retryable = any(name in error.code for name in NOT_RETRYABLE)
        what = f"{batch.target or batch.enrichment}: {error}"
        raise PipeFailed(
            what,
            may_pass=not is_not_retryable or "AccessDenied" in error.code,
            is_internal=error.may_pass,
        ) from error


def _make_log_stream(batch: Batch, params: Mapping[str, Any], control: ControlPlane) -> None:
    """Create a pipe's log stream, unless it exists."""
    parts = batch.arn.split(":")
    named = {name: params[name] for name in ("logGroupName", "logStreamName")}
    # It may exist already, or its group may be missing: PutLogEvents reports that.
    with contextlib.suppress(AwsError):
        control.call("logs", "CreateLogStream", named, account=parts[4], region=parts[3])


def _post_payload(arn: str, payload: str, parameters: Mapping[str, Any]) -> bytes:
    """Send to an API destination or an API; return the answer. Raises PipeFailed."""
    try:
        return send(http_call(arn, parameters), payload.encode())
    except AwsError as error:
        raise PipeFailed(f"{arn}: {error}", may_pass=not is_final(error)) from error
    except OSError as error:
        raise PipeFailed(f"{arn}: {error}", may_pass=True, is_internal=True) from error


def _enrich_events(
    batch: Batch, events: list[Any], control: ControlPlane, now_ms: int, execution: ExecutionLog
) -> list[Any]:
    """Return the result of the enrichment: a function, an express state machine or an HTTP endpoint.

    Documented (pipes-enrichment.html): an empty answer, such as "", {} or [], keeps the target from being invoked.
    """
    template = batch.enrichment_parameters.get("InputTemplate")
    payload = _join_inputs(_transform("ENRICHMENT", template, events, batch, now_ms, execution))
    with execution.step("ENRICHMENT_INVOCATION") as step:
        answer = _ask_enrichment(batch, payload, events, control, step)
    try:
        enriched: Any = parse_json(answer or b"null")
    except ValueError:
        enriched = None
    if isinstance(enriched, list):
        return cast("list[Any]", enriched)
    return [enriched] if enriched not in (None, "", {}) else []


def _ask_enrichment(
    batch: Batch, payload: str, events: list[Any], control: ControlPlane, step: dict[str, Any]
) -> Any:
    """Return the enrichment's answer; put the request and the answer into the log's `step`. Raises PipeFailed."""
    kind = batch.enrichment.split(":")[2]
    if kind == "lambda":
        params: dict[str, Any] = {"FunctionName": batch.enrichment, "Payload": payload.encode()}
        step["awsRequest"] = params
        output = step["awsResponse"] = _call_service(
            batch, batch.enrichment, "lambda", "Invoke", params, control
        )
        if output.get("FunctionError"):
            raise PipeFailed(f"{batch.enrichment} failed: {output['FunctionError']}", may_pass=True)
        return output.get("Payload")
    if kind == "states":
        params = {"stateMachineArn": batch.enrichment, "input": payload}
        step["awsRequest"] = params
        output = _call_service(
            batch, batch.enrichment, "stepfunctions", "StartSyncExecution", params, control
        )
        step["awsResponse"] = output
        _check_execution(batch.enrichment, output)
        return output.get("output")
    if is_http(batch.enrichment):
        parameters = dict(batch.enrichment_parameters.get("HttpParameters") or {})
        # Documented: a pipe with such an enrichment has no batches on AWS, so there is one event.
        filled = _fill_paths(parameters, events[0], batch)
        step["awsRequest"] = payload
        step["awsResponse"] = answer = _post_payload(batch.enrichment, payload, filled)
        return answer
    raise PipeFailed(f"headrace's pipes do not enrich by {batch.enrichment}")


def _passes(filters: Mapping[str, Any], event: dict[str, Any]) -> bool:
    """Whether an event matches a filter; without filters every event does. Raises PipeFailed."""
    patterns = [
        str(filter_["Pattern"])
        for filter_ in filters.get("Filters") or []
        if filter_.get("Pattern")
    ]
    try:
        return not patterns or any(_matches(pattern, event) for pattern in patterns)
    except BadEventPattern as error:
        raise PipeFailed(f"The pipe's filter is not valid: {error}") from error


def _matches(pattern: str, event: dict[str, Any]) -> bool:
    alternatives = compile_pattern(pattern)
    if event.get("eventSource") == "aws:kinesis":
        return matches_payload(alternatives, event, "data", base64.b64decode(event["data"]))
    if event.get("eventSource") == "aws:sqs":
        return matches_payload(alternatives, event, "body", event["body"].encode())
    return matches_event(alternatives, event)


def _readable(event: Any) -> Any:
    """Return an event with its body or data parsed, when that is JSON."""
    if not isinstance(event, dict):
        return event
    seen = dict(cast("dict[str, Any]", event))
    if isinstance(seen.get("data"), str):
        try:
            seen["data"] = _json(base64.b64decode(seen["data"]).decode())
        except (binascii.Error, UnicodeDecodeError):
            seen["data"] = event["data"]
    if isinstance(seen.get("body"), str):
        seen["body"] = _json(seen["body"])
    return seen


def _json(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return text


def _fill_paths(parameters: Any, event: Any, batch: Batch) -> Any:
    """Return parameters with the event's values for their paths. Raises PipeFailed.

    Documented: paths refer to the event itself, never to what a template made of it. That a path without a value fails
    the event is assumed.
    """
    try:
        with Budget(batch.arn) as budget:
            return fill_paths(parameters, _readable(event), budget)
    except NoValue as error:
        raise PipeFailed(f"The event has no value at the path {error}", may_pass=True) from error
    except TooMuch as error:
        raise PipeFailed(f"The parameters ask for too much: {error}") from error


def _inputs(template: Any, events: list[Any], batch: Batch, now_ms: int) -> list[str]:
    """Return a target's inputs for events: the whole events, or the filled template. Raises PipeFailed."""
    if not template:
        return [json.dumps(event) for event in events]
    try:
        with Budget(batch.arn) as budget:
            return [_input(str(template), event, batch, budget, now_ms) for event in events]
    except TooMuch as error:
        raise PipeFailed(f"The InputTemplate asks for too much: {error}") from error


def _input(template: str, event: Any, batch: Batch, budget: Budget, now_ms: int) -> str:
    readable = _readable(event)
    reserved = {
        "aws.pipes.pipe-arn": batch.arn,
        "aws.pipes.pipe-name": batch.arn.rpartition("/")[2],
        "aws.pipes.source-arn": batch.source,
        "aws.pipes.enrichment-arn": batch.enrichment,
        "aws.pipes.target-arn": batch.target,
        "aws.pipes.event.ingestion-time": moment(now_ms).isoformat().replace("+00:00", "Z"),
        "aws.pipes.event": event,
        "aws.pipes.event.json": readable,
    }

    def value_of(name: str) -> Any:
        if name in reserved:
            return reserved[name]
        try:
            return first_value(name, readable, budget)
        except NoValue:
            return ""

    return fill(
        template,
        lambda name: name.startswith("$") or name in reserved,
        value_of,
        in_quotes=lambda value: json.dumps(compact(value), ensure_ascii=False)[1:-1],
        count=lambda length: budget.make(2 * length),
    )


def _join_inputs(inputs: list[str]) -> str:
    """Return inputs as one JSON array; free text becomes a string."""
    return f"[{','.join(text if _is_json(text) else json.dumps(text) for text in inputs)}]"


def _is_json(text: str) -> bool:
    try:
        parse_json(text)
    except ValueError:
        return False
    return True
