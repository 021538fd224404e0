"""Corrects how moto's interpreter runs the iterations of Map states and writes their results.

A distributed Map fails with `States.ExceedToleratedFailureThreshold` when more of its iterations fail than it
tolerates; moto's succeeds with nulls. Documented:
https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html.

Where the items come from is in `item_readers.py`.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from headrace.services.stepfunctions.interpreter.item_readers import (
    READER_ERROR,
    give_back,
    map_failure,
    read_items,
    take_config,
    take_request,
)
from headrace.services.stepfunctions.interpreter.jsonata_states import evaluate
from headrace.services.stepfunctions.interpreter.service_calls import client_of_cloud
from headrace.services.stepfunctions.jsonata_expressions import (
    BATCH_INPUT,
    BATCH_ITEM,
    BATCH_LIMITS,
    unpack_arguments,
    unpack_config,
)

THRESHOLD_ERROR = "States.ExceedToleratedFailureThreshold"
WRITER_ERROR = "States.ResultWriterFailed"
# Documented: the largest input of a child execution.
_MOST_BATCH_BYTES = 256 * 1024
_NONE = object()
# What becomes of a child execution, by the interpreter's state; everything else fails.
_ENDS = {"ProgramEnded": "succeeded", "ProgramStopped": "aborted", "ProgramTimedOut": "timedOut"}


@dataclass(slots=True)
class Iteration:
    """The result of one iteration of a distributed Map; `output` is set when it succeeded."""

    given: Any
    output: Any
    number: int
    has_succeeded: bool
    error: str | None
    cause: str | None
    started: datetime
    stopped: datetime


def patch() -> None:
    """Patch moto's interpreter, which is imported. Called once."""
    from moto.stepfunctions.parser.asl.component.common.path import items_path
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

    paths: Any = items_path.ItemsPath
    paths._eval_body = _want_array(paths._eval_body)
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
    s3._handle_get_object = staticmethod(take_request("GetObject"))
    s3._handle_list_objects_v2 = staticmethod(take_request("ListObjectsV2"))
    kind: Any = input_type.InputType
    kind.__init__ = take_config(kind.__init__)


def _want_array(evaluate: Callable[..., None]) -> Callable[..., None]:
    """Fail in AWS's words (recorded) when ItemsPath leads to no array."""

    def evaluate_array(self: Any, env: Any) -> None:
        evaluate(self, env)
        if not isinstance(env.stack[-1], list):
            path = str(self.string_sampler.literal_value).replace("$$", "$", 1)
            cause = f'Reference path "{path}" must point to array.'
            raise map_failure(env, "States.Runtime", cause)

    return evaluate_array


def _note_input(evaluate: Callable[..., None]) -> Callable[..., None]:
    def evaluate_and_note(self: Any, env_frame: Any) -> None:
        evaluate(self, env_frame=env_frame)
        env_frame.given = env_frame.states.get_input()

    return evaluate_and_note


def _mark_iteration(evaluate: Callable[..., None]) -> Callable[..., None]:
    def evaluate_marked(self: Any, env: Any, job: Any) -> None:
        progress = self._map_run_record.progress
        progress.begin(job.job_index, env.is_running)
        started, status = datetime.now(UTC), "failed"
        try:
            evaluate(self, env=env, job=job)
            state = env.program_state()
            status = _ENDS.get(type(state).__name__, status)
        finally:
            progress.end(job.job_index, status)
        details: Any = getattr(state, "error", None) or {}
        job.job_output = Iteration(
            given=getattr(env, "given", job.job_input),
            output=job.job_output,
            has_succeeded=status == "succeeded",
            number=job.job_index,
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
            # Documented: what is tolerated is counted in items, of which a batch has several.
            sizes = _batch_items(env, eval_input) or [1] * len(env.stack[-1])
            eval_input.map_run_record.progress.plan(sizes)
            run(self, env=env, eval_input=eval_input)
        finally:
            give_back(env)
        if not env.is_running():
            eval_input.map_run_record.set_stop("ABORTED")
            return
        iterations: list[Iteration] = env.stack.pop()
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
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[:20])  # recorded: a path may lead to a number's text
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

    Without a bucket they are the Map's result, in the form that the WriterConfig asks for.
    Documented: https://docs.aws.amazon.com/step-functions/latest/dg/input-output-resultwriter.html.
    """
    self.parargs.eval(env=env)
    parameters = unpack_arguments(env.stack.pop(), lambda expression: evaluate(env, expression))
    parameters, config = unpack_config(parameters)
    env.stack.pop()
    arn: str = env.map_run_record_pool_manager.get_all()[-1].map_run_arn
    if not parameters:
        env.stack.append(_results(env.iterations, arn, config))
        return
    prefix = str(parameters.get("Prefix", ""))
    folder = f"{prefix}/" if prefix and not prefix.endswith("/") else prefix
    folder += arn.rpartition(":")[2]
    details = env.aws_execution_details
    client = client_of_cloud(details.region, "s3", _Role(details.role_arn))
    files: dict[str, list[dict[str, Any]]] = {"FAILED": [], "PENDING": [], "SUCCEEDED": []}
    # The suffix of JSON Lines is assumed.
    is_lines = config.get("OutputType") == "JSONL"
    for status, has_succeeded in (("SUCCEEDED", True), ("FAILED", False)):
        ended = [one for one in env.iterations if one.has_succeeded is has_succeeded]
        results = _results(ended, arn, config)
        if results:
            text = "\n".join(map(json.dumps, results)) if is_lines else json.dumps(results)
            key, body = f"{folder}/{status}_0.json{'l' if is_lines else ''}", text.encode()
            client.call("PutObject", Bucket=parameters["Bucket"], Key=key, Body=body)
            files[status].append({"Key": key, "Size": len(body)})
    manifest = {"DestinationBucket": parameters["Bucket"], "MapRunArn": arn, "ResultFiles": files}
    key = f"{folder}/manifest.json"
    client.call(
        "PutObject", Bucket=parameters["Bucket"], Key=key, Body=json.dumps(manifest).encode()
    )
    where = {"Bucket": parameters["Bucket"], "Key": key}
    env.stack.append({"MapRunArn": arn, "ResultWriterDetails": where})


def _results(iterations: list[Iteration], arn: str, config: dict[str, Any]) -> list[Any]:
    """Return the iterations' results in the form of a WriterConfig; what failed is always shown whole (documented)."""
    form, results = config.get("Transformation", "NONE"), list[Any]()
    for iteration in iterations:
        if form == "NONE" or not iteration.has_succeeded:
            results.append(_result(iteration, arn))
        elif form == "FLATTEN" and isinstance(iteration.output, list):
            results += cast("list[Any]", iteration.output)
        else:
            results.append(iteration.output)
    return results


@dataclass(frozen=True, slots=True)
class _Role:
    role_arn: str


def _result(iteration: Iteration, map_run: str) -> dict[str, Any]:
    name = f"{map_run.rpartition(':')[2]}-{iteration.number}"
    entry = {"Input": json.dumps(iteration.given), "InputDetails": {"Included": True}}
    ended: dict[str, Any] = {"Error": iteration.error, "Cause": iteration.cause}
    if iteration.has_succeeded:
        text = json.dumps(iteration.output)
        ended = {"Output": text, "OutputDetails": {"Included": True}}
    machine = map_run.replace(":mapRun:", ":execution:").rpartition(":")[0]
    return {
        "ExecutionArn": f"{machine}:{name}",
        "Name": name,
        "StateMachineArn": machine.replace(":execution:", ":stateMachine:"),
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
