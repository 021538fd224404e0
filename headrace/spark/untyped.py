"""pyarrow and botocore carry no types of their own: the one place where that is said."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]

pa: Any = pyarrow
pc: Any = pyarrow.compute
# A pyarrow.RecordBatch.
Records: TypeAlias = Any


def untyped(value: object) -> Any:
    """Return `value` as something the type checker does not follow."""
    return value
