"""Stores a caller's note in the same database transaction as the effect of a call: a kill leaves both or neither.

CloudFormation makes a resource by a call to another service and then stores the resource's id. A kill between the two
would leave a resource that no stack knows. So it asks for its own note to be stored in the same transaction of the
database in which the service stores what the call did.
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
    # Returns the answer of the call under way, once there is one that can be read.
    answer: Callable[[], Answer | None] | None = None


_NOW = _OfThread()


@contextmanager
def stored_with_commit(note: Note) -> Generator[None]:
    """Have `note` called at the end of every transaction that this thread commits meanwhile, inside it.

    It is given the answer of the call that the transaction is about; None when the service stores before it answers.
    It writes to the same database, and takes no lock that a thread may hold that waits for the database.
    """
    before, _NOW.note = _NOW.note, note
    try:
        yield
    finally:
        _NOW.note = before


@contextmanager
def without_note() -> Generator[None]:
    """Have this thread's transactions meanwhile be none of those that a note and an answer are for."""
    note, _NOW.note = _NOW.note, None
    answer, _NOW.answer = _NOW.answer, None
    try:
        yield
    finally:
        _NOW.note, _NOW.answer = note, answer


@contextmanager
def answer_from(answer: Callable[[], Answer | None]) -> Generator[None]:
    """Say where the answer of the call under way on this thread is to be had."""
    before, _NOW.answer = _NOW.answer, answer
    try:
        yield
    finally:
        _NOW.answer = before


def has_note() -> bool:
    """Whether this thread has something to store with its next transaction."""
    return _NOW.note is not None


def write_note() -> None:
    """Let the thread's note be written; called inside a transaction, before it is committed."""
    note, _NOW.note = _NOW.note, None
    if note is None:
        return
    try:
        note(None if _NOW.answer is None else _NOW.answer())
    finally:
        _NOW.note = note
