"""Working on the nodes of a dependency graph, some at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Set
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from headrace.services.cloudformation import graph
from headrace.services.cloudformation.custom_responses import CloudStopped

AT_ONCE = 4


def run_in_order(
    needs: Mapping[str, Set[str]],
    work: Callable[[str], None],
    *,
    stop: threading.Event,
    keep_going: bool,
) -> dict[str, BaseException]:
    """Run `work` on each node after those it needs; return the nodes that failed, with why.

    Args:
        needs: node to the nodes before it.
        work: raises when it fails; then nothing is begun that needs the node.
        stop: when it is set nothing more is begun; what runs is waited for.
        keep_going: whether a failure leaves alone what does not need the node. Without it, it sets `stop`.

    Raises CloudStopped.
    """
    left = {name: sum(need in needs for need in before) for name, before in needs.items()}
    needed_by = graph.reverse(needs)
    ready = [name for name, count in left.items() if not count]
    running: dict[Future[None], str] = {}
    failed: dict[str, BaseException] = {}
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="cfn") as pool:
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
                for dependent in needed_by[name]:
                    left[dependent] -= 1
                    if not left[dependent]:
                        ready.append(dependent)
