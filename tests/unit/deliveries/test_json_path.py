"""JSON paths of EventBridge's input transformers."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.evaluation import Budget, TooMuch
from headrace.deliveries.input_templates import NoValue, fill_paths, first_value
from headrace.services.events.targets import InputTooLarge, fill_template

EVENT = {
    "detail": {"a-b": 1, "l": [{"v": "x"}, {"v": "y"}], "none": None, "dots.in": 2, "empty": []}
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$", EVENT),
        ("$.detail.a-b", 1),
        ("$.detail['a-b']", 1),
        ('$["detail"]["dots.in"]', 2),
        ("$.detail.l[1].v", "y"),
        ("$.detail.l[*].v", "x"),
        ("$.detail.*.v", None),
        ("$.*.l[0].v", "x"),
        ("$.detail.none", None),
    ],
)
def test_a_path_leads_to_its_first_value(path: str, value: Any):
    if path == "$.detail.*.v":
        with pytest.raises(NoValue):
            first_value(path, EVENT)
        return
    assert first_value(path, EVENT) == value


@pytest.mark.parametrize(
    "path",
    [
        "", "detail", "$detail", "$..v", "$.", "$.detail.l[2]", "$.detail.l[-1]", "$.detail.l[0:1]", "$.detail.l[",
        "$.detail.l[?(@.v)]", "$.detail.a-b.c", "$.detail.l[0].v.`str()`", "$.empty[*]", "$" + ".a" * 600,
        "$.detail.l[99999999999]", "$[]", "$['']",
    ],
)  # fmt: skip
def test_what_leads_nowhere_says_so(path: str):
    with pytest.raises(NoValue):
        first_value(path, EVENT)


@pytest.mark.parametrize(
    ("parameters", "event"),
    [
        ({f"k{i}": "$.detail" for i in range(500)}, {"detail": "x" * 250_000}),
        (["$.detail[*].a"] * 100, {"detail": [*({},) * 10_000, {"a": 1}]}),
    ],
    ids=["bytes", "steps"],
)
def test_a_targets_parameters_are_bounded(parameters: Any, event: Any):
    with Budget("test", may_wait=False) as budget, pytest.raises(TooMuch):
        fill_paths(parameters, event, budget)


def test_an_input_templates_paths_are_bounded():
    paths = {f"p{i}": f"$.detail[*].{i}" for i in range(100)}
    template = "".join(f"<{name}>" for name in paths)
    with pytest.raises(InputTooLarge, match="A path of a target's input asks for too much"):
        fill_template(template, paths, {"detail": [{}] * 10_000}, {})
