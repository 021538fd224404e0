"""A request's body as it arrives: in memory, or past 16 MiB in a temporary file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import IO, cast

SPOOL_ABOVE_BYTES = 16 * 1024 * 1024
# A part of a multipart upload has 5 GiB at most; signed chunks make it a little longer.
MAX_BODY_BYTES = 5 * 1024**3 + 16 * 1024 * 1024


class RequestBody:
    """Gathers one body. Used by one thread."""

    def __init__(self, temp_dir: Path) -> None:
        self.size_bytes = 0
        self._temp_dir = temp_dir
        self._chunks: list[bytes] = []
        self._file: IO[bytes] | None = None

    def add(self, data: bytes) -> bool:
        """Take the next bytes; False when the body is larger than any request's may be."""
        self.size_bytes += len(data)
        if self.size_bytes > MAX_BODY_BYTES:
            return False
        if self._file is not None:
            self._file.write(data)
            return True
        self._chunks.append(data)
        if self.size_bytes > SPOOL_ABOVE_BYTES:
            # Its name outlives its closing: whoever receives it may move it away.
            file = tempfile.NamedTemporaryFile(dir=self._temp_dir, delete=False)  # noqa: SIM115
            self._file = cast("IO[bytes]", file)
            self._file.writelines(self._chunks)
            self._chunks = []
        return True

    def finish(self) -> tuple[bytes, Path | None]:
        """Return the body, or, with no bytes, the file that holds it."""
        if self._file is not None:
            self._file.close()
            path = Path(self._file.name)
            self._file = None
            return b"", path
        return self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks), None

    def discard(self) -> None:
        """Forget what has come of a body that will not be whole."""
        self._chunks = []
        if self._file is not None:
            self._file.close()
            Path(self._file.name).unlink(missing_ok=True)
            self._file = None
