"""Compares the stored objects with their ETags while the cloud is stopped. It reads every byte and writes nothing.

The ETag of an object is the MD5 of its bytes. The ETag of a multipart object is the MD5 of its parts' MD5s, followed by
the number of parts. A file without a row (Spark wrote it) has no ETag to compare with. Nor has a file that was changed
after S3 wrote it, which its size and modification time show. Neither of these is damaged.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headrace.services.s3.files import (
    ESCAPED_FOLDER,
    S3_FOLDER,
    VERSIONS_FOLDER,
    build_escaped_name,
)
from headrace.services.s3.uploads import UPLOADS_FOLDER

_PIECE_BYTES = 1024 * 1024
_PLAIN = re.compile(r"[0-9a-f]{32}")
_OF_PARTS = re.compile(r"([0-9a-f]{32})-(\d+)")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of checking one object or part.

    Attributes:
        name: `s3://bucket/key`, or the name of an upload's part.
        verdict: `sound`; `damaged`; `changed` (another program changed the file); `gone` (another program deleted it);
            `unknown` (the ETag has a form that cannot be computed).
        path: the file.
    """

    name: str
    verdict: Literal["sound", "damaged", "changed", "gone", "unknown"]
    path: Path
    size_bytes: int = 0


def verify_objects(data_dir: Path, database: Path) -> Iterator[CheckResult]:
    """Yield every object and every uploaded part that has a row. Raises sqlite3.DatabaseError, OSError."""
    uri = f"file:{database}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        tables = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master").fetchall()
        }
        if "s3_objects" in tables:
            for row in connection.execute(
                "SELECT bucket, key, escaped, size, etag, mtime_ns, details FROM s3_objects"
            ):
                yield _check_object(data_dir / S3_FOLDER, row)
        if "s3_versions" in tables:
            for row in connection.execute(
                "SELECT bucket, key, version_id, file, size, etag, mtime_ns, details"
                " FROM s3_versions WHERE file != ''"
            ):
                yield _version(data_dir / S3_FOLDER / VERSIONS_FOLDER, row)
        if "s3_parts" in tables:
            for upload, number, etag, size in connection.execute(
                "SELECT upload, number, etag, size FROM s3_parts"
            ):
                path = data_dir / S3_FOLDER / UPLOADS_FOLDER / upload / str(number)
                yield _check_part(path, f"part {number} of upload {upload}", etag, size)


def _check_object(root: Path, row: tuple[Any, ...]) -> CheckResult:
    bucket, key, escaped, size, etag, mtime_ns, details = row
    path = (
        root / ESCAPED_FOLDER / bucket / build_escaped_name(key) if escaped else root / bucket / key
    )
    name = f"s3://{bucket}/{key}"
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        # Other programs may delete plain files, but only S3 writes to the escape folder.
        return CheckResult(name, "damaged" if escaped else "gone", path)
    if (status.st_size, status.st_mtime_ns) != (size, mtime_ns):
        return CheckResult(name, "damaged" if escaped else "changed", path)
    computed = _compute_etag(path, etag, json.loads(details).get("part_sizes") or [])
    if computed is None:
        return CheckResult(name, "unknown", path, size)
    return CheckResult(name, "sound" if computed == etag else "damaged", path, size)


def _version(root: Path, row: tuple[Any, ...]) -> CheckResult:
    bucket, key, version_id, file, size, etag, mtime_ns, details = row
    path = root / bucket / file
    name = f"s3://{bucket}/{key}?versionId={version_id}"
    if not path.is_file():
        return CheckResult(name, "damaged", path)
    status = path.stat()
    if (status.st_size, status.st_mtime_ns) != (size, mtime_ns):
        # The current version's file is also the plain file, which other programs may write to.
        return CheckResult(name, "changed" if status.st_nlink > 1 else "damaged", path)
    computed = _compute_etag(path, etag, json.loads(details).get("part_sizes") or [])
    if computed is None:
        return CheckResult(name, "unknown", path, size)
    return CheckResult(name, "sound" if computed == etag else "damaged", path, size)


def _check_part(path: Path, name: str, etag: str, size: int) -> CheckResult:
    if not path.is_file():
        return CheckResult(name, "damaged", path)
    sound = path.stat().st_size == size and _compute_etag(path, etag, []) == etag
    return CheckResult(name, "sound" if sound else "damaged", path, size)


def _compute_etag(path: Path, like: str, part_sizes: list[int]) -> str | None:
    """Compute the ETag of a file in the form of the ETag `like`, or return None when the form is unknown."""
    if _PLAIN.fullmatch(like):
        with path.open("rb") as file:
            return hashlib.file_digest(file, _start_md5).hexdigest()
    of_parts = _OF_PARTS.fullmatch(like)
    if of_parts is None or int(of_parts[2]) != len(part_sizes):
        return None
    digests = b"".join(_compute_digests(path, part_sizes))
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(part_sizes)}"


def _compute_digests(path: Path, part_sizes: list[int]) -> Iterator[bytes]:
    with path.open("rb") as file:
        for size in part_sizes:
            digest, left = _start_md5(), size
            while left and (piece := file.read(min(left, _PIECE_BYTES))):
                digest.update(piece)
                left -= len(piece)
            yield digest.digest()


def _start_md5() -> Any:
    return hashlib.md5(usedforsecurity=False)
