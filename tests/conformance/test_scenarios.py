"""A wrong answer is found, and a right one is none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.scenarios import differences, member, parameters

SAME: list[tuple[Any, Any]] = [
    ({"status": 200, "Rules": [{"ID": "a"}]}, {"status": 200, "Rules": [{"ID": "a"}]}),
    (["<id 1>", "x-<id 1>"], ["q", "x-q"]),
    ("<arn 1>", "arn:aws:iam::1:role/r"),
    (["<number>", "<text>", "<time>"], [1.5, "", "2024-01-01T00:00:00+00:00"]),
    ({"json": {"a": "<name 1>"}}, '{"a": "word"}'),
    ({"any order": ["<name 1>", "b"]}, ["a", "b"]),
    ({"xml": {"A": {"B": ["1", {"C": ""}]}}}, "<A><B>1</B><B><C/></B></A>"),
    ({"bytes": "abc"}, "abc"),
    ({"base64 of": "<name 1>!"}, "YWIh"),
    ({"repeat": "a", "times": 2, "end": "b"}, "aab"),
]
DIFFERENT: list[tuple[Any, Any]] = [
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": 1, "b": 2}, {"a": 1}),
    ({"a": 1}, {"a": 2}),
    (["a"], []),
    (["<id 1>", "<id 1>"], ["a", "b"]),
    ("<arn 1>", "role/r"),
    ("<uuid 1>", "abc"),
    ("<time>", "yesterday"),
    ("<number>", True),
    ({"json": {"a": 1}}, '{"a": 2}'),
    ({"any order": ["a", "b"]}, ["b", "c"]),
    ({"xml": {"A": {"B": "1"}}}, "<A><B>2</B></A>"),
    ({"bytes": "abc"}, "abd"),
    ({"base64 of": "ab?"}, "YWIh"),
    ("a", None),
]


@pytest.mark.parametrize(("wanted", "got"), SAME)
def test_a_right_answer(wanted: Any, got: Any):
    assert differences(wanted, got, {}) == []


@pytest.mark.parametrize(("wanted", "got"), DIFFERENT)
def test_a_wrong_answer(wanted: Any, got: Any):
    assert len(differences(wanted, got, {})) == 1


def test_each_difference_is_told():
    wanted = {"status": 200, "VersionId": "<id 1>", "Rules": [{"ID": "a"}]}
    got = {"status": 404, "VersionId": "y", "Rules": [], "More": 1}
    assert len(differences(wanted, got, {"<id 1>": "x"})) == 4


def test_parameters_have_what_was_kept():
    kept = {"<arn 1>": str(member({"Role": {"Arns": ["a"]}}, "Role.Arns[0]"))}
    assert parameters({"Role": "<arn 1>", "Code": {"base64": "YQ=="}}, kept) == {
        "Role": "a",
        "Code": b"a",
    }
