"""Reads the first rows of a Parquet file: an engine of `headrace.core.evaluation.child`, which bounds time and memory.

The request is the file. The answer is JSON: `columns` (name, type), `rows` of texts, `total`; or `problem`, a sentence.
"""

# pyarrow creates its functions when it is imported, so pyright does not know them.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingImports=false, reportMissingTypeStubs=false

from __future__ import annotations

import json
from typing import Any

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    pyarrow = None

MOST_ROWS = 100
MOST_COLUMNS = 100
MOST_CELL_CHARS = 500
_MISSING = "To open Parquet files, install pyarrow: pip install 'pyarrow>=21'."
if pyarrow is not None:
    # The other pools reserve more address space than a child may have.
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value)[:MOST_CELL_CHARS]


def answer(request: bytes) -> bytes:
    """Answer one file."""
    if pyarrow is None:
        return json.dumps({"problem": _MISSING}).encode()
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(request), memory_map=False)
        fields = list(file.schema_arrow)
        chosen = [one.name for one in fields[:MOST_COLUMNS]] if len(fields) > MOST_COLUMNS else None
        fields = fields[:MOST_COLUMNS]
        batch = next(file.iter_batches(MOST_ROWS, columns=chosen, use_threads=False), None)
        columns = [] if batch is None else batch.columns[:MOST_COLUMNS]
        rows = [
            [_text(column[number].as_py()) for column in columns]
            for number in range(0 if batch is None else batch.num_rows)
        ]
    except (pyarrow.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
        sentence = str(error) or "it needs too much memory"
        return json.dumps(
            {"problem": f"The Parquet file cannot be read: {sentence[:500]}."}
        ).encode()
    names = [{"name": one.name, "type": str(one.type)[:200]} for one in fields]
    total = {"total": file.metadata.num_rows, "allColumns": len(file.schema_arrow)}
    return json.dumps({"columns": names, "rows": rows, **total}).encode()
