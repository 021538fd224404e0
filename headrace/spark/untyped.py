"""The one place that imports pyarrow and botocore for the type checker: they have no types of their own."""

from __future__ import annotations

from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]

pa: Any = pyarrow
pc: Any = pyarrow.compute
# A pyarrow.RecordBatch.
Records = Any


def untyped(value: object) -> Any:
    """Return `value` as something the type checker does not follow."""
    return value
