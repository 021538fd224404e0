"""The bounds of JSONPath states: intrinsic functions, payload templates, the history.

Documented: https://docs.aws.amazon.com/step-functions/latest/dg/intrinsic-functions.html and service-quotas.html.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.services.stepfunctions.interpreter import history
from tests.support.moto_lab import MotoLab

ROLE = "arn:aws:iam::000000000000:role/r"


def tried(lab: MotoLab, value: str, given: Any = None, **more: Any) -> Any:
    """Return what a Pass state makes of an input: its value, or its error."""
    state = {"Type": "Pass", "Parameters": {"r.$": value}, "End": True, **more}
    found = lab.client("stepfunctions").test_state(
        definition=json.dumps(state), roleArn=ROLE, input=json.dumps(given or {})
    )
    return (
        json.loads(found["output"])["r"] if "output" in found else (found["error"], found["cause"])
    )


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ("States.ArrayRange(1, 9, 2)", [1, 3, 5, 7, 9]),
        ("States.ArrayRange(9, 1, -4)", [9, 5, 1]),
        ("States.ArrayRange(1, 1000, 1)", list(range(1, 1001))),
        ("States.Format('{}-{}', 'a', 1)", "a-1"),
        (r"States.Format('\{{}\}', 'a')", "{a}"),
        ("States.Format($.t, 1)", "{0} 1"),
    ],
)
def test_an_intrinsic_function_within_its_bounds(lab: MotoLab, value: str, made: Any):
    assert tried(lab, value, {"t": "{0} {}"}) == made


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            "States.ArrayRange(0, 999999999, 1)",
            "'States.ArrayRange' had the following error: The range",
        ),
        ("States.ArrayRange(0, 1, 0)", "must not be zero"),
        ("States.Format('{0:>999999999}', 1)", "does not match"),
        ("States.Format('{} {}', 1)", "does not match"),
        ("States.MathAdd(1, 'a')", "States.MathAdd"),
        ("States.StringToJson($.t)", "States.StringToJson"),
    ],
)
def test_an_intrinsic_function_that_fails(lab: MotoLab, value: str, said: str):
    error, cause = tried(lab, value, {"t": "[" * 5000})
    assert (error, said in cause) == ("States.IntrinsicFailure", True), cause


@pytest.mark.parametrize(
    "value",
    ["States.Array($.x, $.x)", "States.Format('{}{}', $.x, $.x)", "States.JsonToString($.l)"],
)
def test_what_a_function_makes_has_at_most_256_kib(lab: MotoLab, value: str):
    given = {"x": "a" * 150_000, "l": ['"' * 100_000]}
    error, cause = tried(lab, value, given)
    assert error == "States.DataLimitExceeded"
    assert "returned a result with a size exceeding the maximum number of bytes" in cause


def test_a_payload_template_has_at_most_256_kib(lab: MotoLab):
    copies = {f"a{number}.$": "$.x" for number in range(100)}
    error, _ = tried(lab, "$.x", {"x": "a" * 10_000}, Parameters=copies)
    assert error == "States.DataLimitExceeded"


def test_the_histories_of_all_executions_have_a_bound(monkeypatch: pytest.MonkeyPatch):
    text = "x" * (40 * 1024 * 1024)
    details = {"stateEnteredEventDetails": {"input": text}}
    try:
        history.note_event("a", details)
        with pytest.raises(RuntimeError, match="history has more bytes"):
            history.note_event("a", details)
        for name in "bcd":
            history.note_event(name, details)
        with pytest.raises(RuntimeError, match="history has more bytes"):
            history.note_event("e", details)
    finally:
        for name in "abcde":
            history.HISTORIES.give_back(name)
    history.note_event("a", details)
    history.HISTORIES.give_back("a")
