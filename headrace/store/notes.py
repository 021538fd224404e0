"""Stores a caller's note in the same database transaction as the effect of a call: a kill leaves both or neither.

CloudFormation makes a resource by a call to another service and then stores the resource's id. A kill between the two
would leave a resource that no stack knows. So CloudFormation passes a note, and the service's database transaction
stores the note together with the effect of the call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

Answer = dict[str, Any]
Note = Callable[["Answer | None"], None]


class _OfThread(threading.local):
    note: Note | None = None
    # Returns the answer of the call that runs on this thread; None before there is an answer.
    answer: Callable[[], Answer | None] | None = None


NOW = _OfThread()


@contextmanager
def store_with_commit(note: Note) -> Generator[None]:
    """Call `note` in every transaction that this thread commits inside the `with` block, just before the commit.

    `note` gets the answer of the call that runs, or None when the service stores before it answers. It writes to the
    same database. It must not take a lock that another thread may hold while that thread waits for the database.
    """
    before, NOW.note = NOW.note, note
    try:
        yield
    finally:
        NOW.note = before


@contextmanager
def without_note() -> Generator[None]:
    """Commit this thread's transactions inside the `with` block without the note, and hide the current answer."""
    note, NOW.note = NOW.note, None
    answer, NOW.answer = NOW.answer, None
    try:
        yield
    finally:
        NOW.note, NOW.answer = note, answer


@contextmanager
def answer_from(answer: Callable[[], Answer | None]) -> Generator[None]:
    """Set the function that returns the answer of the call that runs on this thread."""
    before, NOW.answer = NOW.answer, answer
    try:
        yield
    finally:
        NOW.answer = before


def write_note() -> None:
    """Write this thread's note, which there is; called inside a transaction, before the commit."""
    note, NOW.note = NOW.note, None
    assert note is not None
    try:
        note(None if NOW.answer is None else NOW.answer())
    finally:
        NOW.note = note
