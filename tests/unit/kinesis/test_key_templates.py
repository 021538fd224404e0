"""Output key templates of channels: the examples of AWS's page, and what the templates become."""

from __future__ import annotations

import pytest

from headrace.services.kinesis.channel_orders import DEFAULT_TEMPLATE, expand, find_fault

NAMES = {"channel-name": "my-channel", "channel-id": "abc", "stream-name": "my-stream"}
AT_MS = 1_784_558_999_000  # 2026-07-20 14:49:59 UTC


@pytest.mark.parametrize(
    ("template", "compression"),
    [
        (DEFAULT_TEMPLATE, "ZSTD"),
        ("!{channel-name}/!{yyyy}/!{MM}/!{dd}/!{HH}/records!{extension}", "GZIP"),
        ("data/stream=!{stream-name}/!{yyyy}-!{MM}-!{dd}/!{HH}!{mm}!{extension:.json}", "GZIP"),
        ("!{channel-name}/!{channel-id}", "NONE"),
    ],
)
def test_templates_that_aws_calls_valid(template: str, compression: str):
    assert find_fault(template, compression, NAMES) == ""


@pytest.mark.parametrize(
    ("template", "compression", "words"),
    [
        ("/data/!{channel-name}!{extension}", "NONE", "forward slash"),
        ("data/../!{channel-name}!{extension}", "NONE", "path traversal"),
        ("data/./a", "NONE", "path traversal"),
        ("data//!{channel-name}!{extension}", "NONE", "consecutive slashes"),
        ("!{channel-name}!{extension}/!{yyyy}", "NONE", "at the end"),
        ("data/!{partition-id}!{extension}", "NONE", "!{partition-id}"),
        ("data/!{channel-name}", "GZIP", "compression is enabled"),
        ("data/!{channel-name}/!{yyyy", "NONE", "not closed"),
        ("a{b}", "NONE", "not closed"),
        ("!{extension}!{extension}", "NONE", "at most one"),
        ("a!{extension:.JSON}", "NONE", "unsupported"),
        ("a b", "NONE", "not allowed"),
        ("x" * 987, "NONE", "986"),
    ],
)
def test_templates_that_are_refused(template: str, compression: str, words: str):
    assert words in find_fault(template, compression, NAMES)


def test_variables_become_their_values_and_the_suffix_stands_before_the_extension():
    template = "!{stream-name}/!{yyyy}-!{yy}/!{MM}/!{dd}/!{HH}!{mm}!{extension}"
    assert expand(template, "GZIP", NAMES, AT_MS, "u") == "my-stream/2026-26/07/20/1449-u.gz"
    assert expand("a!{extension:.json.gz}", "GZIP", NAMES, AT_MS, "u") == "a-u.json.gz"
    assert expand("a", "NONE", NAMES, AT_MS, "u") == "a-u"
