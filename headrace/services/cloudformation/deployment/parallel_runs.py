"""Runs a function on the nodes of a graph, in parallel, each after those that it depends on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Set
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import Any

from headrace.services.cloudformation.signals import CloudStopped
from headrace.services.cloudformation.template.template import reverse_graph

AT_ONCE = 4


class _Here(Executor):
    """Runs each call at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See `Executor.submit`."""
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - whoever asks for the result gets it
            done.set_exception(error)
        return done


def run_in_order(
    depends_on: Mapping[str, Set[str]],
    work: Callable[[str], None],
    *,
    stop: threading.Event,
    keep_going: bool,
    executor: Callable[[], Executor],
) -> dict[str, BaseException]:
    """Run `work` on each node after its dependencies; return the nodes that failed with their errors.

    Args:
        depends_on: node -> its dependencies.
        work: raises when it fails; nodes that depend on this one are then not begun.
        stop: once it is set, no node is begun; running ones end first.
        keep_going: whether nodes that do not depend on a failed one are still begun. Otherwise a failure sets `stop`.
        executor: makes what runs the work of several nodes; it is shut down at the end.

    Raises CloudStopped.
    """
    left = {
        name: sum(other in depends_on for other in others) for name, others in depends_on.items()
    }
    dependents_of = reverse_graph(depends_on)
    ready = [name for name, count in left.items() if not count]
    running: dict[Future[None], str] = {}
    failed: dict[str, BaseException] = {}
    # A single node needs no thread of its own.
    with executor() if len(depends_on) > 1 else _Here() as pool:
        while True:
            while ready and not stop.is_set():
                name = ready.pop(0)
                running[pool.submit(work, name)] = name
            if not running:
                return failed
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                name = running.pop(future)
                error = future.exception()
                if isinstance(error, CloudStopped):
                    raise error
                if error is not None:
                    failed[name] = error
                    if not keep_going:
                        stop.set()
                    continue
                for dependent in dependents_of[name]:
                    left[dependent] -= 1
                    if not left[dependent]:
                        ready.append(dependent)
