"""CBOR against cbor2, and against damage."""

from __future__ import annotations

from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client import cbor

_SIMPLE = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.binary()
    | st.text()
)
_VALUES = st.recursive(
    _SIMPLE, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@given(_VALUES)
def test_what_cbor2_writes_is_read(value: Any):
    assert cbor.loads(cbor2.dumps(value)) == value


@given(st.text(), st.integers(0, 2**64 - 1))
def test_what_is_written_is_read_by_cbor2(text: str, number: int):
    assert cbor2.loads(cbor.text(text)) == text
    assert cbor2.loads(cbor.head(cbor.UNSIGNED, number)) == number


def test_items_without_a_length():
    assert cbor.loads(b"\xbf\x61a\x9f\x01\x02\xff\x61b\x7f\x61x\x61y\xff\xff") == {
        "a": [1, 2],
        "b": "xy",
    }


def test_a_tag_is_passed_over():
    assert cbor.loads(b"\xc1\x1a\x00\x00\x00\x05") == 5


@given(_VALUES, st.data())
def test_damage_is_a_value_error_or_another_value(value: Any, data: st.DataObject):
    content = cbor2.dumps(value)
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    with pytest.raises(ValueError):
        cbor.loads(cut)
    try:
        cbor.loads(content + b"\x00")
    except ValueError:
        return
    raise AssertionError("more than one item")
