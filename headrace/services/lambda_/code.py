"""Deployment packages on disk: each zip kept and unpacked once, under the SHA-256 of its bytes."""

from __future__ import annotations

import base64
import hashlib
import shutil
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.core.ids import Ids
from headrace.core.ports import BucketNotFound, ObjectNotFound, ObjectStore
from headrace.services.lambda_.errors import invalid_parameter
from headrace.services.lambda_.limits import DIRECT_ZIP_BYTES
from headrace.services.lambda_.unzip import unzip

_READ_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Package:
    """A stored deployment package. `digest` is the zip's SHA-256 in hexadecimal."""

    digest: str
    size_bytes: int

    @property
    def code_sha256(self) -> str:
        """The digest as Lambda shows it."""
        return base64.b64encode(bytes.fromhex(self.digest)).decode()


class CodeStore:
    """Packages under `<data_dir>/lambda/code`. Thread-safe; a package appears whole or not at all."""

    def __init__(self, data_dir: Path, objects: ObjectStore, ids: Ids) -> None:
        self._root = data_dir / "lambda" / "code"
        self._objects = objects
        self._ids = ids
        self._lock = threading.Lock()

    def directory(self, digest: str) -> Path:
        """Return where a package's files are."""
        return self._root / digest

    def fingerprint(self, digest: str) -> str:
        """Return what changes when a package's files do."""
        return digest

    def zip_file(self, digest: str) -> Path:
        """Return where a package's zip is."""
        return self._root / f"{digest}.zip"

    def add(self, source: Mapping[str, Any]) -> Package:
        """Store a package given as AWS's `FunctionCode` or `LayerVersionContentInput`.

        Raises AwsError when the object is missing, UnsafeArchive and UnzippedTooLarge.
        """
        if source.get("ImageUri"):
            raise invalid_parameter("headrace does not run container images; deploy a zip package")
        if "ZipFile" in source:
            return self._add_bytes(source["ZipFile"])
        bucket, key = source.get("S3Bucket"), source.get("S3Key")
        if not bucket or not key:
            raise invalid_parameter("Please provide a source for function code.")
        try:
            return self._add_file(self._objects.file(bucket, key))
        except BucketNotFound:
            raise invalid_parameter(
                "Error occurred while GetObject. S3 Error Code: NoSuchBucket. "
                "S3 Error Message: The specified bucket does not exist"
            ) from None
        except (ObjectNotFound, FileNotFoundError):
            raise invalid_parameter(
                "Error occurred while GetObject. S3 Error Code: NoSuchKey. "
                "S3 Error Message: The specified key does not exist."
            ) from None

    def _add_bytes(self, content: bytes) -> Package:
        if len(content) > DIRECT_ZIP_BYTES:
            raise invalid_parameter(f"Zipped size must be smaller than {DIRECT_ZIP_BYTES} bytes")
        scratch = self._scratch()
        scratch.write_bytes(content)
        return self._store(scratch, hashlib.sha256(content).hexdigest())

    def _add_file(self, file: Path) -> Package:
        digest = hashlib.sha256()
        scratch = self._scratch()
        # Copied while it is hashed: the object may be replaced at any moment.
        with file.open("rb") as source, scratch.open("wb") as sink:
            while chunk := source.read(_READ_BYTES):
                digest.update(chunk)
                sink.write(chunk)
        return self._store(scratch, digest.hexdigest())

    def _scratch(self) -> Path:
        self._root.mkdir(parents=True, exist_ok=True)
        return self._root / f"new-{self._ids.hex(16)}.zip"

    def _store(self, scratch: Path, digest: str) -> Package:
        """Unpack beside the final place and rename, so that a kill leaves nothing half made."""
        package = Package(digest, scratch.stat().st_size)
        unpacked = scratch.with_suffix("")
        try:
            with self._lock:
                if not self.directory(digest).is_dir():
                    unzip(scratch, unpacked)
                    scratch.replace(self.zip_file(digest))
                    unpacked.replace(self.directory(digest))
        finally:
            scratch.unlink(missing_ok=True)
            shutil.rmtree(unpacked, ignore_errors=True)
        return package

    def prune(self, used: Iterable[str]) -> None:
        """Remove every package that is not in `used`, and what a kill left half made."""
        keep = set(used)
        if not self._root.is_dir():
            return
        for path in self._root.iterdir():
            if path.name.removesuffix(".zip") in keep:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    @staticmethod
    def sha256_of(digest: str) -> str:
        """Return a package's digest as Lambda shows it."""
        return Package(digest, 0).code_sha256
