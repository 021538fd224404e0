"""Buckets, objects, multipart uploads and their parts: plain records."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEFAULT_CONTENT_TYPE = "binary/octet-stream"


@dataclass(slots=True)
class Bucket:
    """A bucket. `configurations` has the value of each sub-resource by its name, such as `BucketPolicy`."""

    account: str
    region: str
    created_ms: int
    configurations: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object: its file, and its description in the index. `etag` has no quotes."""

    bucket: str
    key: str
    path: Path
    size_bytes: int
    etag: str
    last_modified_ms: int
    mtime_ns: int
    content_type: str = DEFAULT_CONTENT_TYPE
    headers: dict[str, str] = field(default_factory=dict[str, str])
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    checksums: dict[str, str] = field(default_factory=dict[str, str])
    tags: dict[str, str] = field(default_factory=dict[str, str])
    parts: int = 0
    part_sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One uploaded part."""

    number: int
    etag: str
    size_bytes: int
    uploaded_ms: int
    path: Path
    checksums: dict[str, str]


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload that has neither been completed nor aborted."""

    upload_id: str
    bucket: str
    key: str
    initiated_ms: int
    params: dict[str, Any]
