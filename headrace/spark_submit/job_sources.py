"""The Python modules of a job: its file and its `--py-files`, which are local files."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.spark_submit.arguments import Submission, option_values

_LONGEST_SOURCE_BYTES = 4 * 1024 * 1024


def job_sources(submission: Submission, properties: Mapping[str, str]) -> Iterator[bytes]:
    """Return the source of each module of a job with local files; none for a job in Java or Scala."""
    others = [*option_values(submission, "--py-files"), properties.get("spark.submit.pyFiles", "")]
    for name in (submission.application, *(n for value in others for n in value.split(","))):
        yield from _sources(Path(name))


def _sources(file: Path) -> Iterator[bytes]:
    """Return the modules in a .py file, or in a .zip or .egg."""
    if not file.is_file():
        return
    if file.suffix == ".py":
        if file.stat().st_size <= _LONGEST_SOURCE_BYTES:
            yield file.read_bytes()
    elif zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                if entry.filename.endswith(".py") and entry.file_size <= _LONGEST_SOURCE_BYTES:
                    yield archive.read(entry)
