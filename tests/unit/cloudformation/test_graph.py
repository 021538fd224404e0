"""The order of a dependency graph."""

from __future__ import annotations

import pytest

from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.template.template import check_acyclic, in_order

DEPENDS_ON = {"a": set[str](), "b": {"a"}, "c": {"b"}, "d": {"a"}, "e": set[str]()}


def test_what_others_need_comes_first():
    order = in_order(DEPENDS_ON)
    assert sorted(order) == sorted(DEPENDS_ON)
    assert all(
        order.index(each) < order.index(node) for node in DEPENDS_ON for each in DEPENDS_ON[node]
    )


def test_a_circle_is_named():
    with pytest.raises(TemplateError, match=r"\[x, y\]"):
        check_acyclic({"x": {"y"}, "y": {"x"}, "z": set()})


def test_a_chain_of_ten_thousand_is_no_matter():
    chain = {str(i): {str(i - 1)} if i else set[str]() for i in range(10_000)}
    assert in_order(chain) == list(chain)
