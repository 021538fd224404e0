"""Corrects how moto's interpreter runs the iterations of Map states and writes their results.

A distributed Map fails with `States.ExceedToleratedFailureThreshold` when more of its iterations fail than it
tolerates; moto's succeeds with nulls. Documented:
https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html.

Reads the items of a distributed Map from an object in S3, and bounds the memory that they take.

AWS reads objects of gigabytes and starts an execution for each item elsewhere; here all items are in this process.

The failure of a Map state, under the name by which its Catch and Retry know it.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

# moto has no public attributes for these patches.
import csv
import io
import itertools

# moto has no public attributes for these patches.
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from headrace.core.evaluation import Ledger, TooMuch, bound_parsed_bytes, text_size
from headrace.services.stepfunctions.interpreter.jsonata_states import evaluate
from headrace.services.stepfunctions.interpreter.service_calls import client_of_cloud
from headrace.services.stepfunctions.query_languages import (
    BATCH_INPUT,
    BATCH_ITEM,
    BATCH_LIMITS,
    unpack_arguments,
)

# moto has no public attributes for these patches.


THRESHOLD_ERROR = "States.ExceedToleratedFailureThreshold"
WRITER_ERROR = "States.ResultWriterFailed"
# Documented: the largest input of a child execution.
_MOST_BATCH_BYTES = 256 * 1024
_NONE = object()


@dataclass(slots=True)
class Iteration:
    """The result of one iteration of a distributed Map; `output` is set when it succeeded."""

    given: Any
    output: Any
    has_succeeded: bool
    error: str | None
    cause: str | None
    started: datetime
    stopped: datetime


def patch() -> None:
    """Patch moto's interpreter, which is imported. Called once."""
    from moto.stepfunctions.parser.asl.component.state.exec.state_map.item_reader import (
        item_reader_decl,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_map.item_reader.eval import (
        resource_eval_s3,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_map.item_reader.reader_config import (
        input_type,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration import (
        distributed_iteration_component,
        iteration_worker,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.itemprocessor import (
        distributed_item_processor_worker as processors,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.iterator import (
        distributed_iterator_worker as iterators,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_map.result_writer import (
        result_writer_decl,
    )

    workers: list[Any] = [
        processors.DistributedItemProcessorWorker,
        iterators.DistributedIteratorWorker,
    ]
    for worker in workers:
        worker._eval_job = _mark_iteration(worker._eval_job)
        worker._eval_input = _note_input(worker._eval_input)
    for worker in [*workers, cast("Any", iteration_worker.IterationWorker)]:
        worker._eval_pool = _loop_over_items(worker._eval_pool)
    component: Any = distributed_iteration_component.DistributedIterationComponent
    component._map_run = _tolerate_failures(component._map_run)
    writer: Any = result_writer_decl.ResultWriter
    writer._eval_body = _rename_failure(_write_results, WRITER_ERROR)
    reader: Any = item_reader_decl.ItemReader
    reader._eval_body = _rename_failure(read_items, READER_ERROR)
    s3: Any = resource_eval_s3.ResourceEvalS3
    s3._handle_list_objects_v2 = staticmethod(list_objects)
    kind: Any = input_type.InputType
    kind.__init__ = take_lines(kind.__init__)


def _note_input(evaluate: Callable[..., None]) -> Callable[..., None]:
    def evaluate_and_note(self: Any, env_frame: Any) -> None:
        evaluate(self, env_frame=env_frame)
        env_frame.given = env_frame.states.get_input()

    return evaluate_and_note


def _mark_iteration(evaluate: Callable[..., None]) -> Callable[..., None]:
    def evaluate_marked(self: Any, env: Any, job: Any) -> None:
        from moto.stepfunctions.parser.asl.eval.program_state import ProgramEnded

        started = datetime.now(UTC)
        evaluate(self, env=env, job=job)
        state = env.program_state()
        details: Any = getattr(state, "error", None) or {}
        job.job_output = Iteration(
            given=getattr(env, "given", job.job_input),
            output=job.job_output,
            has_succeeded=isinstance(state, ProgramEnded),
            error=details.get("error"),
            cause=details.get("cause"),
            started=started,
            stopped=datetime.now(UTC),
        )

    return evaluate_marked


def _tolerate_failures(run: Callable[..., None]) -> Callable[..., None]:
    """Leave out failed iterations (assumed), or fail when there are more than the Map tolerates."""

    def run_tolerantly(self: Any, env: Any, eval_input: Any) -> None:
        try:
            sizes = _batch_items(env, eval_input)
            run(self, env=env, eval_input=eval_input)
        finally:
            give_back(env)
        if not env.is_running():
            return
        iterations: list[Iteration] = env.stack.pop()
        # Documented: what is tolerated is counted in items, of which a batch has several.
        sizes = sizes or [1] * len(iterations)
        failed = sum(
            size
            for iteration, size in zip(iterations, sizes, strict=True)
            if not iteration.has_succeeded
        )
        if _is_too_much(failed, sum(sizes), eval_input.map_run_record):
            raise map_failure(
                env, THRESHOLD_ERROR, "The specified tolerated failure threshold was exceeded"
            )
        env.iterations = iterations
        env.stack.append([iteration.output for iteration in iterations if iteration.has_succeeded])

    return run_tolerantly


def _batch_items(env: Any, eval_input: Any) -> list[int]:
    """Put batches in the place of the items on the stack, if the Map has an ItemBatcher; return their sizes.

    Documented: docs.aws.amazon.com/step-functions/latest/dg/input-output-itembatcher.html.
    """
    selector = eval_input.item_selector
    names = (
        ()
        if selector is None
        else [
            str(getattr(binding, "identifier", ""))
            for binding in selector.template_value_object.bindings
        ]
    )
    if BATCH_LIMITS not in names:
        return []
    items: list[Any] = env.stack.pop()
    batches, sizes = list[dict[str, Any]](), list[int]()
    size = 0
    for index, item in enumerate(items):
        selected = _select(env, selector, index, item)
        limits: dict[str, Any] = selected[BATCH_LIMITS]
        value, length = selected[BATCH_ITEM], _size_bytes(selected[BATCH_ITEM]) + 1
        most_items = _limit(env, limits, "MaxItemsPerBatch", len(items))
        most_bytes = _limit(env, limits, "MaxInputBytesPerBatch", _MOST_BATCH_BYTES)
        if not batches or sizes[-1] >= most_items or size + length > most_bytes:
            batches.append({**selected[BATCH_INPUT], "Items": []})
            sizes.append(0)
            size = _size_bytes(batches[-1])
        batches[-1]["Items"].append(value)
        sizes[-1] += 1
        size += length
    eval_input.item_selector = eval_input.parameters = None
    env.stack.append(batches)
    return sizes


def _size_bytes(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode(errors="replace"))


def _limit(env: Any, limits: dict[str, Any], name: str, default: int) -> int:
    """Return a limit of batches. Raises the Map's failure for one that is no positive integer (sentence assumed)."""
    value = limits.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 1 or value % 1:
        raise map_failure(env, "States.Runtime", f"{name} must be a positive integer, not {value}")
    return int(value)


def _select(env: Any, selector: Any, index: int, item: Any) -> dict[str, Any]:
    """Return an item as the ItemSelector makes it, which carries the ItemBatcher too."""
    from moto.stepfunctions.parser.asl.eval.states import ItemData, MapData

    frame, state_input = env.open_inner_frame(), env.stack[-1]
    try:
        frame.states.context_object.context_object_data["Map"] = MapData(
            Item=ItemData(Index=index, Value=item)
        )
        frame.states.reset(input_value=state_input)
        frame.stack.append(state_input)
        selector.eval(frame)
        return frame.stack[-1]
    finally:
        env.delete_frame(frame)


def _write_results(self: Any, env: Any) -> None:
    """Write the iterations' results, and the manifest with the files' names, which moto's manifest lacks.

    Documented: https://docs.aws.amazon.com/step-functions/latest/dg/input-output-resultwriter.html.
    """
    self.parargs.eval(env=env)
    parameters = unpack_arguments(env.stack.pop(), lambda expression: evaluate(env, expression))
    env.stack.pop()
    arn: str = env.map_run_record_pool_manager.get_all()[-1].map_run_arn
    prefix = str(parameters.get("Prefix", ""))
    folder = f"{prefix}/" if prefix and not prefix.endswith("/") else prefix
    folder += arn.rpartition(":")[2]
    details = env.aws_execution_details
    client = client_of_cloud(details.region, "s3", _Role(details.role_arn))
    files: dict[str, list[dict[str, Any]]] = {"FAILED": [], "PENDING": [], "SUCCEEDED": []}
    for status, has_succeeded in (("SUCCEEDED", True), ("FAILED", False)):
        results = [
            _result(iteration, arn, number)
            for number, iteration in enumerate(env.iterations)
            if iteration.has_succeeded is has_succeeded
        ]
        if results:
            key, body = f"{folder}/{status}_0.json", json.dumps(results).encode()
            client.call("PutObject", Bucket=parameters["Bucket"], Key=key, Body=body)
            files[status].append({"Key": key, "Size": len(body)})
    manifest = {"DestinationBucket": parameters["Bucket"], "MapRunArn": arn, "ResultFiles": files}
    key = f"{folder}/manifest.json"
    client.call(
        "PutObject", Bucket=parameters["Bucket"], Key=key, Body=json.dumps(manifest).encode()
    )
    where = {"Bucket": parameters["Bucket"], "Key": key}
    env.stack.append({"MapRunArn": arn, "ResultWriterDetails": where})


@dataclass(frozen=True, slots=True)
class _Role:
    role_arn: str


def _result(iteration: Iteration, map_run: str, number: int) -> dict[str, Any]:
    name = f"{map_run.rpartition(':')[2]}-{number}"
    entry = {"Input": json.dumps(iteration.given), "InputDetails": {"Included": True}}
    ended: dict[str, Any] = {"Error": iteration.error, "Cause": iteration.cause}
    if iteration.has_succeeded:
        text = json.dumps(iteration.output)
        ended = {"Output": text, "OutputDetails": {"Included": True}}
    machine = map_run.replace(":mapRun:", ":execution:").rpartition(":")[0]
    return {
        "ExecutionArn": f"{machine}:{name}",
        "Name": name,
        **entry,
        **{key: value for key, value in ended.items() if value is not None},
        "StartDate": iteration.started.isoformat(timespec="milliseconds")[:23] + "Z",
        "StopDate": iteration.stopped.isoformat(timespec="milliseconds")[:23] + "Z",
        "Status": "SUCCEEDED" if iteration.has_succeeded else "FAILED",
    }


def _is_too_much(failed: int, of: int, record: Any) -> bool:
    count, percentage = record.tolerated_failure_count, record.tolerated_failure_percentage
    if not count and not percentage:
        return failed > 0
    return bool(
        (count and failed > count) or (percentage and failed * 100 > percentage * max(of, 1))
    )


def _rename_failure(evaluate: Callable[..., None], error: str) -> Callable[..., None]:
    """Rename a service's error to the name that a Map's Catch knows (documented)."""

    def evaluate_or_rename(self: Any, env: Any) -> None:
        from botocore.exceptions import ClientError

        try:
            evaluate(self, env)
        except ClientError as refused:
            raise map_failure(env, error, str(refused)) from refused

    return evaluate_or_rename


def _loop_over_items(evaluate: Callable[..., None]) -> Callable[..., None]:
    """Take the next item in a loop: moto's worker recurses, which works for a few hundred items at most."""

    def evaluate_in_loop(self: Any, job: Any, worker_frame: Any) -> None:
        if getattr(self, "is_looping", False):
            self.next_of_loop = job
            return
        self.is_looping = True
        try:
            while True:
                self.next_of_loop = _NONE
                evaluate(self, job=job, worker_frame=worker_frame)
                if self.next_of_loop is _NONE:
                    return
                job = self.next_of_loop
        finally:
            self.is_looping = False

    return evaluate_in_loop


READER_ERROR = "States.ItemReaderFailed"
# The items of one Map, and of all together, about as they are in memory. An execution's history ends it before.
ITEMS = Ledger(one=256 * 1024 * 1024, all_together=512 * 1024 * 1024)
# An object of a row, and one field of it, beside their texts: moto sorts each row's fields.
_ROW_BYTES, _FIELD_BYTES = 600, 120
# An object of a listing.
_LISTED_BYTES, _MOST_LISTED_BYTES = 900, 256 * 1024 * 1024


def read_items(self: Any, env: Any) -> None:
    """Read a Map's items, in place of moto's function; it does not read JSON Lines, which Firehose writes."""
    config, is_lines = None, False
    if self.reader_config:
        is_lines = getattr(self.reader_config.input_type, "is_lines", False)
        self.reader_config.eval(env=env)
        config = env.stack.pop()
    if self.parargs:
        self.parargs.eval(env=env)
    else:
        env.stack.append({})
    try:
        self.resource_eval.eval_resource(env=env)
        if config is None:
            return
        text: Any = env.stack.pop()
        if isinstance(text, list):
            # A listing needs no reading of a file.
            env.stack.append(cast("list[Any]", text)[: config["MaxItemsValue"]])
            return
        if is_lines:
            text = "".join(itertools.islice(_lines(text), config["MaxItemsValue"]))
        _hold(env, _count_bytes(text, config))
        if is_lines:
            env.stack.append([json.loads(line) for line in io.StringIO(text)])
            return
        env.stack += [text, config]
        self.resource_output_transformer.eval(env=env)
    except TooMuch as error:
        raise map_failure(env, READER_ERROR, f"{error}.") from error
    except (ValueError, RecursionError, csv.Error) as error:
        give_back(env)
        kind = self.reader_config.input_type.input_type_value.value
        what = "A line of the file is no JSON value" if is_lines else f"The file is no {kind}"
        raise map_failure(env, READER_ERROR, f"{what}: {error}") from error


def list_objects(env: Any, part: Any, credentials: Any) -> None:
    """List a bucket's objects as a Map's items, all pages, in place of moto's function, which fails at an empty one.

    Documented: docs.aws.amazon.com/step-functions/latest/dg/input-output-itemreader.html (the members' names).
    """
    client, request = client_of_cloud(part.region, "s3", credentials), dict(env.stack.pop())
    items = list[dict[str, Any]]()
    size = 0
    while True:
        page = client.call("ListObjectsV2", **request)
        for entry in page.get("Contents", ()):
            at = datetime.fromisoformat(entry["LastModified"])
            members = {
                name: entry[name] for name in ("Key", "Size", "StorageClass") if name in entry
            }
            items.append({"Etag": entry["ETag"], "LastModified": int(at.timestamp()), **members})
            size += _LISTED_BYTES + len(entry["Key"])
        if size > _MOST_LISTED_BYTES:
            raise TooMuch("The bucket has more objects than headrace keeps in memory")
        if not page.get("IsTruncated"):
            break
        request["ContinuationToken"] = page["NextContinuationToken"]
    _hold(env, size)
    env.stack.append(items)


def give_back(env: Any) -> None:
    """Note that the items of a Map are in memory no more."""
    ITEMS.give_back(getattr(env, "items_holder", ""))


def _hold(env: Any, size: int) -> None:
    env.items_holder = str(uuid.uuid4())
    try:
        ITEMS.take(env.items_holder, size)
    except TooMuch:
        raise TooMuch("The file has more items than headrace keeps in memory") from None


def _lines(text: str) -> Iterator[str]:
    return (f"{line.strip()}\n" for line in io.StringIO(text) if line.strip())


def _count_bytes(text: str, config: Any) -> int:
    """Return the bytes that the items of a file take in memory, at most."""
    if "CSVHeaderLocation" not in config:
        return bound_parsed_bytes(text)
    headers = config.get("CSVHeaders") or next(csv.reader(io.StringIO(text)), [])
    # Every row has all columns.
    rows = min(text.count("\n") + 1, config["MaxItemsValue"])
    return text_size(text) + rows * (_ROW_BYTES + len(headers) * _FIELD_BYTES)


def take_lines(take: Callable[..., None]) -> Callable[..., None]:
    """Let the type of a reader's input be JSON Lines too."""

    def take_input_type(self: Any, input_type: str) -> None:
        self.is_lines = input_type == "JSONL"
        take(self, "JSON" if self.is_lines else input_type)

    return take_input_type


def map_failure(env: Any, error: str, cause: str) -> Exception:
    """Return the exception with which a Map ends in moto's interpreter."""
    from moto.stepfunctions.parser.api import HistoryEventType
    from moto.stepfunctions.parser.asl.component.common.error_name.error_name import ErrorName
    from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
        FailureEvent,
        FailureEventException,
    )
    from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails

    details: Any = {"error": error, "cause": cause}
    details_of: Any = EventDetails
    kind: Any = HistoryEventType.MapRunFailed
    name: Any = type("MapErrorName", (ErrorName,), {})
    return FailureEventException(
        FailureEvent(
            env=env,
            error_name=name(error),
            event_type=kind,
            event_details=details_of(mapRunFailedEventDetails=details),
        )
    )
