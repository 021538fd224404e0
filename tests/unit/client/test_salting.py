from __future__ import annotations

import pytest

from headrace.client import Salt


def test_a_key_is_put_under_several_names_in_turn_and_found_again() -> None:
    salt = Salt(3)
    salted = [salt("UA") for _ in range(6)]
    assert salted == ["UA#0", "UA#1", "UA#2", "UA#0", "UA#1", "UA#2"]
    assert {salt.original(key) for key in salted} == {"UA"}


def test_only_the_named_keys_are_salted_and_unsalted() -> None:
    salt = Salt(2, {"UA"})
    assert salt("DL") == "DL"
    assert salt.original("DL#1") == "DL#1"
    assert salt.original("UA#7") == "UA#7"
    assert salt.original(salt("UA")) == "UA"


def test_a_salt_of_one_way_is_none() -> None:
    with pytest.raises(ValueError, match="at least two ways"):
        Salt(1)
