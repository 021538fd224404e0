"""A kill between any two operations on files or rows leaves a history as before a call, or as after it.

No process is killed: every operation from a chosen one on raises, as if there were no process any more, and S3 starts
again on what is on the disk.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.services.s3.state import StoredObject
from headrace.store.database import Database
from tests.api.s3.conftest import BUCKET
from tests.api.s3.helpers import S3Lab
from tests.support.clock import FakeClock

KEY = "dir/k"
OPERATIONS = ("link", "replace", "unlink", "rmdir", "mkdir", "utime")


class Killed(BaseException):
    """There is no process any more."""


class Killer:
    """Counts operations; from number `last` on, each raises."""

    def __init__(self, last: int) -> None:
        self.left = last

    def count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.count()
            return function(*args, **kwargs)

        return counted

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name in OPERATIONS:
                patch.setattr(os, name, self.wrap(getattr(os, name)))
            patch.setattr(Database, "_run", self.wrap(Database._run))
            yield


def put(s3: Any, body: bytes) -> str:
    return s3.put_object(Bucket=BUCKET, Key=KEY, Body=body).get("VersionId", "null")


def versioning(s3: Any, status: str) -> None:
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": status})


def two_versions(s3: Any) -> list[str]:
    put(s3, b"zero")
    versioning(s3, "Enabled")
    return [put(s3, b"one"), put(s3, b"two")]


def marked(s3: Any) -> list[str]:
    ids = two_versions(s3)
    return [*ids, s3.delete_object(Bucket=BUCKET, Key=KEY)["VersionId"]]


def before_versions(s3: Any) -> list[str]:
    put(s3, b"zero")
    versioning(s3, "Enabled")
    return []


def suspended(s3: Any) -> list[str]:
    ids = two_versions(s3)
    versioning(s3, "Suspended")
    return ids


def remove(number: int) -> Callable[[Any, list[str]], Any]:
    return lambda s3, ids: s3.delete_object(Bucket=BUCKET, Key=KEY, VersionId=ids[number])


CALLS: dict[str, tuple[Callable[[Any], list[str]], Callable[[Any, list[str]], Any]]] = {
    "put": (two_versions, lambda s3, ids: put(s3, b"three")),
    "first put with versions": (before_versions, lambda s3, ids: put(s3, b"three")),
    "put over a marker": (marked, lambda s3, ids: put(s3, b"three")),
    "put, suspended": (suspended, lambda s3, ids: put(s3, b"three")),
    "delete": (two_versions, lambda s3, ids: s3.delete_object(Bucket=BUCKET, Key=KEY)),
    "delete, suspended": (suspended, lambda s3, ids: s3.delete_object(Bucket=BUCKET, Key=KEY)),
    "delete the current version": (two_versions, remove(1)),
    "delete an older version": (two_versions, remove(0)),
    "delete the marker": (marked, remove(2)),
    "delete a version under the marker": (marked, remove(1)),
}


def seen(lab: S3Lab) -> tuple[Any, ...]:
    """Return the bytes of the history, the newest first (None for a marker), and of the plain file."""
    histories = lab.s3.histories
    found = [
        listed.version.path.read_bytes() if isinstance(listed.version, StoredObject) else None
        for listed in histories.of_key(BUCKET, KEY)
    ]
    plain = lab.folder(BUCKET) / KEY
    return (found, plain.read_bytes() if plain.exists() else None)


QUICK = ("put", "delete the current version")


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CALLS]
)
def test_a_kill_leaves_the_history_before_or_after_a_call(tmp_path: Path, name: str):
    prepare, call = CALLS[name]
    lab = S3Lab(tmp_path / "0", FakeClock())
    s3 = lab.client()
    results: list[tuple[Any, ...]] = []
    before: tuple[Any, ...] = ()
    is_done = False
    while not is_done:
        lab.move(tmp_path / str(len(results) + 1))
        s3.create_bucket(Bucket=BUCKET)
        ids = prepare(s3)
        before = seen(lab)
        killer = Killer(len(results))
        with killer.at_work(), contextlib.suppress(Killed):
            call(s3, ids)
        is_done = killer.left >= 0
        lab.restart()
        results.append(seen(lab))
        newest = next(iter(results[-1][0]), None)
        assert newest == results[-1][1]  # it is the plain file, or a marker and there is none
    lab.stop()
    # Every kill up to some point undid the call, and every later one left all of it.
    undone = results.index(next(result for result in results if result != before))
    assert undone > 2
    assert len(results) > undone + 1
    assert results == [before] * undone + results[-1:] * (len(results) - undone)
