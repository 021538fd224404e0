"""`headrace trace` of a name that is not there says what may be meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli import trace as module

_LAMBDA, _KINESIS = "arn:aws:lambda:us-east-1:1:function", "arn:aws:kinesis:us-east-1:1:stream"
MAPPINGS = [
    {"function": f"{_LAMBDA}:Aggregate", "source": f"{_KINESIS}/clicks"},
    {"function": f"{_LAMBDA}:Alarms:live", "source": "arn:aws:sqs:us-east-1:1:alarms"},
]


def _answers(mappings: list[dict[str, str]]) -> Callable[..., Any]:
    return lambda _url, page, _query, _member: mappings if page == "lambda/mappings" else None


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Agregate", "; did you mean 'Aggregate'?"),
        ("clicks", "; clicks is read by Aggregate: headrace trace Aggregate"),
        ("alarms", "; alarms is read by Alarms: headrace trace Alarms"),
        ("xyz", "; there is Aggregate, Alarms"),
    ],
)
def test_the_nearest_or_the_reader_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, hint: str
) -> None:
    monkeypatch.setattr(module, "_fetch", _answers(MAPPINGS))
    done = CliRunner().invoke(module.trace, [name])
    beginning = f"Error: There is no mapping, mapped function, queue or channel {name}"
    assert (done.exit_code, done.output) == (1, f"{beginning}{hint}\n")


def test_without_mappings_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_fetch", _answers([]))
    assert (
        CliRunner()
        .invoke(module.trace, ["f"])
        .output.endswith("channel f; no function is mapped to a stream or a queue\n")
    )
