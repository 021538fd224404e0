"""Names of resources, and ids of accounts."""

from __future__ import annotations

import pytest

from headrace.core.arn import is_account_id


@pytest.mark.parametrize(
    "text", ["", "12345678901", "1234567890123", "12345678901a", " 12345678901", "\uff11" * 12]
)
def test_only_twelve_digits_are_an_account(text: str) -> None:
    assert is_account_id("012345678901")
    assert not is_account_id(text)
