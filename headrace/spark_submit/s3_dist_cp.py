"""`s3-dist-cp` of EMR's machines, in its plain form: copies the files below one folder to another.

Documented (UsingEMR_s3distcp.html): `--src`, `--dest`, `--srcPattern` (a regular expression for the whole URI) and
`--deleteOnSuccess`. Its other options are refused by name.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.core.patterns import MatchTooLong, PatternRefused, java_pattern
from headrace.spark_submit.errors import JobRefused

_VALUES = ("--src", "--dest", "--srcPattern")
_DELETE = "--deleteOnSuccess"
_S3 = re.compile(r"s3[an]?://([^/]+)/?(.*)")
_HDFS = re.compile(r"(?:hdfs:(?://[^/]*)?)?(/.*)")


@dataclass(frozen=True, slots=True)
class Copy:
    """A parsed command line."""

    source: str
    target: str
    pattern: str | None
    deletes: bool


def parse_copy(arguments: Sequence[str]) -> Copy:
    """Parse the arguments of s3-dist-cp. Raises JobRefused."""
    values: dict[str, str] = {}
    deletes = False
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name in _VALUES:
            argument = value if equals else next(words, None)
            if argument is None:
                raise JobRefused(f"s3-dist-cp's option {name} lacks its value.")
            values[name] = argument
        elif name == _DELETE:
            deletes = True
        else:
            raise JobRefused(f"headrace's s3-dist-cp does not have {name}.")
    for name in ("--src", "--dest"):
        if name not in values:
            raise JobRefused(f"s3-dist-cp needs {name}.")
        if not (_S3.fullmatch(values[name]) or _HDFS.fullmatch(values[name])):
            raise JobRefused(
                f"headrace's s3-dist-cp copies s3:// and hdfs:///, not {values[name]}."
            )
    return Copy(values["--src"], values["--dest"], values.get("--srcPattern"), deletes)


def _matching(text: str, names: list[str], source: _Place) -> list[str]:
    """Return the names whose URI a Java pattern matches whole. Raises JobRefused."""
    try:
        pattern = java_pattern(text)
        return [name for name in names if pattern.matches(source.uri(name))]
    except (PatternRefused, MatchTooLong) as error:
        raise JobRefused(f"s3-dist-cp's --srcPattern {text}: {error}") from error


def copy_files(copy: Copy, s3: Any, hdfs: Path) -> int:
    """Copy the files, and print how many; return how many. Raises JobRefused, and botocore's errors.

    Args:
        copy: what to copy.
        s3: a client with the job's role.
        hdfs: the folder of `hdfs:///`.
    """
    source, target = _Place(copy.source, s3, hdfs), _Place(copy.target, s3, hdfs)
    names = source.names()
    if copy.pattern is not None:
        # Of the whole URI, as Java's Matcher.matches.
        names = _matching(copy.pattern, names, source)
    elif not names:
        raise JobRefused(f"Input path does not exist: {copy.source}")
    for name in names:
        target.put(name, source)
    if copy.deletes:
        for name in names:
            source.delete(name)
    sys.stderr.write(f"s3-dist-cp: copied {len(names)} files from {copy.source} to {copy.target}\n")
    return len(names)


class _Place:
    """A folder in S3 or HDFS; `name` is a file's path below it, empty for the folder's own path as a file."""

    def __init__(self, uri: str, s3: Any, hdfs: Path) -> None:
        self._uri = uri.rstrip("/")
        self.s3 = s3
        match = _S3.fullmatch(uri)
        self.bucket, self.prefix = (match[1], match[2].strip("/")) if match else ("", "")
        path = _HDFS.fullmatch(uri)
        self.folder = hdfs / path[1].strip("/") if path else None

    def uri(self, name: str) -> str:
        return f"{self._uri}/{name}" if name else self._uri

    def key(self, name: str) -> str:
        return "/".join(part for part in (self.prefix, name) if part)

    def path(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / name if name else self.folder

    def names(self) -> list[str]:
        if self.folder is not None:
            if self.folder.is_file():
                return [""]
            return sorted(
                path.relative_to(self.folder).as_posix()
                for path in self.folder.rglob("*")
                if path.is_file()
            )
        names: list[str] = []
        for page in self.s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=self.prefix
        ):
            for content in page.get("Contents", []):
                key = str(content["Key"])
                name = key.removeprefix(self.prefix).removeprefix("/")
                is_below = (
                    key == self.prefix or not self.prefix or key.startswith(f"{self.prefix}/")
                )
                if is_below and not key.endswith("/"):
                    names.append(name)
        return names

    def put(self, name: str, source: _Place) -> None:
        # A single file is copied below the target folder.
        below = name or source.uri(name).rpartition("/")[2]
        if self.folder is None and source.folder is None:
            self.s3.copy_object(
                Bucket=self.bucket,
                Key=self.key(below),
                CopySource={"Bucket": source.bucket, "Key": source.key(name)},
            )
        elif self.folder is None:
            self.s3.upload_file(str(source.path(name)), self.bucket, self.key(below))
        else:
            path = self.path(below)
            path.parent.mkdir(parents=True, exist_ok=True)
            if source.folder is None:
                self.s3.download_file(source.bucket, source.key(name), str(path))
            else:
                shutil.copyfile(source.path(name), path)

    def delete(self, name: str) -> None:
        if self.folder is None:
            self.s3.delete_object(Bucket=self.bucket, Key=self.key(name))
        else:
            self.path(name).unlink()
