"""Bucket names and keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.services.s3.files import build_escaped_name, is_plain
from headrace.services.s3.routing import is_bucket_name


@pytest.mark.parametrize(
    "name", ["abc", "a-b.c", "123", "a" * 63, "cdk-hnb659fds-assets-000000000000-us-east-1"]
)
def test_names_that_s3_takes(name: str):
    assert is_bucket_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "ab",
        "a" * 64,
        "A-b",
        "a_b",
        "-ab",
        "ab-",
        ".ab",
        "ab.",
        "a..b",
        "1.2.3.4",
        "a/b",
        "..",
        "a\n",
        "x-s3alias",
    ],
)
def test_names_that_s3_refuses(name: str):
    assert not is_bucket_name(name)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_a_plain_key_is_one_way_down(key: str):
    if is_plain(key):
        parts = key.split("/")
        assert not {"", ".", ".."} & set(parts)
        assert "\0" not in key


@given(st.text(max_size=30))
def test_an_escaped_name_is_a_file_name(key: str):
    name = build_escaped_name(key)
    assert len(name) == 64
    assert set(name) <= set("0123456789abcdef")
