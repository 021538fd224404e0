"""A stream that is not there: the nearest one is named, or the region that has none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.cli.stream_names import suggest_stream


def _kinesis(*names: str) -> Any:
    pages = SimpleNamespace(paginate=lambda: [{"StreamNames": list(names)}])
    return SimpleNamespace(
        get_paginator=lambda _: pages, meta=SimpleNamespace(region_name="eu-west-1")
    )


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        (("clicks", "logs"), "; did you mean 'clicks'?"),
        (("orders",), "; there is orders"),
        ((), "; there is no stream in eu-west-1"),
    ],
)
def test_the_hint_is_of_the_streams_of_the_region(names: tuple[str, ...], hint: str) -> None:
    error = ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "PutRecord")
    assert suggest_stream(error, _kinesis(*names), "clikcs") == hint
