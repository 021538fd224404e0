"""Arrow arrays of Python's values and NumPy's, without `pyarrow.array`, which imports pandas where that is installed.

That takes half a second of a processor in each of Spark's Python processes, of which a job has several. A task of the
source needs no pandas.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from headrace.spark.untyped import pa, untyped


def binary_array(values: Sequence[bytes]) -> Any:
    """Return an array of BINARY."""
    return _of_bytes(values, pa.binary())


def string_array(values: Sequence[str | None]) -> Any:
    """Return an array of STRING, in which None is NULL."""
    encoded = [b"" if value is None else value.encode() for value in values]
    validity = None
    if None in values:
        bits = bytearray((len(values) + 7) // 8)
        for number, value in enumerate(values):
            bits[number // 8] |= (value is not None) << number % 8
        validity = pa.py_buffer(bits)
    return _of_bytes(encoded, pa.string(), validity)


def repeated_string(value: str, count: int) -> Any:
    """Return an array of STRING in which each of `count` values is this one."""
    return string_array([value]).take(words_array(array("q", bytes(8 * count)), pa.int64()))


def integer_array(values: Iterable[int], kind: Any) -> Any:
    """Return an array of a type of 64 bits."""
    return words_array(array("q", values), kind)


def words_array(words: Any, kind: Any) -> Any:
    """Return an array of a type of 64 bits, of what lies in a buffer: NumPy's int64, or an `array`."""
    return untyped(pa.Array).from_buffers(kind, len(words), [None, pa.py_buffer(words)])


def integer(value: int) -> Any:
    """Return a BIGINT, with which an array of them is compared."""
    return integer_array([value], pa.int64())[0]


def _of_bytes(values: Sequence[bytes], kind: Any, validity: Any = None) -> Any:
    offsets = array("i", accumulate(map(len, values), initial=0))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    return untyped(pa.Array).from_buffers(kind, len(values), buffers)
