"""Reads a Parquet file as JSON: an engine of `headrace.core.evaluation.child`; time and memory are bounded.

The request is a line of JSON, `{start, most}`, and the file. The answer is JSON: `rows` from `start` on, as many as
fit into one answer, and `total`; or `problem`, a sentence.
"""

# pyarrow creates its functions when it is imported, so pyright does not know them.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingImports=false, reportMissingTypeStubs=false

from __future__ import annotations

import base64
import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow
import pyarrow.parquet

_BATCH_ROWS = 1000
_ANSWER_CHARS = 4 * 1024 * 1024
# The other pools reserve more address space than a child may have.
pyarrow.set_memory_pool(pyarrow.system_memory_pool())
pyarrow.set_cpu_count(1)
pyarrow.set_io_thread_count(1)


def _plain(value: Any) -> Any:
    """Return a value of no type of JSON's as one: bytes are text or Base64, times are text."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _rows(file: Any, start: int, most: int) -> list[str]:
    rows, size, at = list[str](), 0, 0
    for group in range(file.metadata.num_row_groups):
        length = file.metadata.row_group(group).num_rows
        at += length
        if at <= start:
            continue
        passed = at - length
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=[group], use_threads=False):
            passed += batch.num_rows
            if passed <= start:
                continue
            for row in batch.slice(max(start - (passed - batch.num_rows), 0)).to_pylist():
                if len(rows) == most or size > _ANSWER_CHARS:
                    return rows
                rows.append(json.dumps(row, default=_plain, allow_nan=False))
                size += len(rows[-1])
    return rows


def answer(request: bytes) -> bytes:
    """Answer one request."""
    line, _, body = request.partition(b"\n")
    asked = json.loads(line)
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(body), memory_map=False)
        rows = _rows(file, asked["start"], asked["most"])
    except (pyarrow.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
        sentence = str(error) or "it needs too much memory"
        return json.dumps({"problem": f"The file is no PARQUET: {sentence[:500]}"}).encode()
    return b'{"total":%d,"rows":[%s]}' % (file.metadata.num_rows, ",".join(rows).encode())
