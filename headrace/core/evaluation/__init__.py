"""Bounds every evaluation of a text that a client wrote: expressions, templates, queries, patterns.

There are two kinds of engines, and one rule for both. Our own engines run in this process and count what they do with
a `Budget`: steps, the size of every value, processor time. Engines that are not ours (`jsonata`, `jq`, `jsonpath-ng`)
run in the child processes of `POOL`, with limits of the kernel. Either way an evaluation that is not quick waits for
one of a few places (`Turns`), which callers get in turn; so no caller's evaluations hold up another's, and the memory
that all evaluations use together is bounded. A bound that is exceeded raises `TooMuch`; the caller answers with AWS's
error. How deep a text may nest is its parser's own bound.
"""

from __future__ import annotations

from headrace.core.evaluation.budget import (
    LARGE,
    Budget,
    Ledger,
    Stopped,
    TooMuch,
    Turns,
    bound_parsed_bytes,
    check_json_size,
    text_size,
)
from headrace.core.evaluation.pool import POOL, Engine, Pool

__all__ = [
    "POOL",
    "Budget",
    "Engine",
    "Ledger",
    "Pool",
    "Stopped",
    "TooMuch",
    "Turns",
    "bound_parsed_bytes",
    "check_json_size",
    "stop_evaluations",
    "text_size",
]


def stop_evaluations() -> None:
    """Make all evaluations fail with Stopped that wait or run in a child process; for the stop of a cloud."""
    LARGE.stop_waiting()
    POOL.close()
