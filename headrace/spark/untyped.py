"""The only module that imports pyarrow and botocore for the type checker, because they have no types."""

from __future__ import annotations

from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]

pa: Any = pyarrow
pc: Any = pyarrow.compute
# A pyarrow.RecordBatch.
Records = Any


def untyped(value: object) -> Any:
    """Return `value` with a type that the type checker does not check."""
    return value
