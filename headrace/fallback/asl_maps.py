"""Mends how moto's interpreter runs the iterations of Map states: failures count, and names of errors are kept.

A distributed Map fails with `States.ExceedToleratedFailureThreshold` when more of its iterations fail than it
tolerates; moto's succeeds with nulls. Documented:
https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false
# moto has no other places for what is put into it.
# ruff: noqa: SLF001

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

THRESHOLD_ERROR = "States.ExceedToleratedFailureThreshold"
_NONE = object()


class _Failed:
    """Stands for the output of an iteration that failed."""


def patch() -> None:
    """Mend moto's interpreter, which is imported. Called once."""
    from moto.stepfunctions.parser.asl.component.common.error_name.error_name import ErrorName
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
    from moto.stepfunctions.parser.asl.component.state.exec.state_parallel import branches_decl

    any_name: Any = type("NameOfAnyError", (ErrorName,), {})
    # What fails inside of a Map or a Parallel may be States.Runtime as well; moto takes Fail states alone to fail.
    for module in (iteration_worker, branches_decl):
        cast("Any", module).CustomErrorName = any_name
    workers: list[Any] = [
        processors.DistributedItemProcessorWorker,
        iterators.DistributedIteratorWorker,
    ]
    for worker in workers:
        worker._eval_job = _marking(worker._eval_job)
    for worker in [*workers, cast("Any", iteration_worker.IterationWorker)]:
        worker._eval_pool = _looping(worker._eval_pool)
    component: Any = distributed_iteration_component.DistributedIterationComponent
    component._map_run = _tolerating(component._map_run)


def _marking(evaluate: Callable[..., None]) -> Callable[..., None]:
    def marking(self: Any, env: Any, job: Any) -> None:
        from moto.stepfunctions.parser.asl.eval.program_state import ProgramEnded

        evaluate(self, env=env, job=job)
        if not isinstance(env.program_state(), ProgramEnded):
            job.job_output = _Failed()

    return marking


def _tolerating(run: Callable[..., None]) -> Callable[..., None]:
    """Leave out what failed (assumed), or fail when that is too much."""

    def tolerating(self: Any, env: Any, eval_input: Any) -> None:
        run(self, env=env, eval_input=eval_input)
        if not env.is_running():
            return
        outputs: list[Any] = env.stack.pop()
        succeeded = [each for each in outputs if not isinstance(each, _Failed)]
        failed = len(outputs) - len(succeeded)
        if _is_too_much(failed, len(outputs), eval_input.map_run_record):
            raise _threshold(env)
        env.stack.append(succeeded)

    return tolerating


def _is_too_much(failed: int, of: int, record: Any) -> bool:
    count, percentage = record.tolerated_failure_count, record.tolerated_failure_percentage
    if not count and not percentage:
        return failed > 0
    return bool(
        (count and failed > count) or (percentage and failed * 100 > percentage * max(of, 1))
    )


def _threshold(env: Any) -> Exception:
    from moto.stepfunctions.parser.api import HistoryEventType
    from moto.stepfunctions.parser.asl.component.common.error_name.error_name import ErrorName
    from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
        FailureEvent,
        FailureEventException,
    )
    from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails

    cause = "The specified tolerated failure threshold was exceeded"
    details: Any = {"error": THRESHOLD_ERROR, "cause": cause}
    details_of: Any = EventDetails
    kind: Any = HistoryEventType.MapRunFailed
    name: Any = type("ThresholdErrorName", (ErrorName,), {})
    return FailureEventException(
        FailureEvent(
            env=env,
            error_name=name(THRESHOLD_ERROR),
            event_type=kind,
            event_details=details_of(mapRunFailedEventDetails=details),
        )
    )


def _looping(evaluate: Callable[..., None]) -> Callable[..., None]:
    """Take the next item in a loop: moto's worker calls itself for it, a few hundred times at most."""

    def looping(self: Any, job: Any, worker_frame: Any) -> None:
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

    return looping
