"""Every rule against its own two examples, and each boundary that a rule turns on."""

from __future__ import annotations

import pytest
from cfnlint.rules import Rules

from headrace.lint.rules import RULES
from headrace.lint.template import StreamingRule
from tests.unit.lint.support import found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_it_finds_its_bad_example(rule: type[StreamingRule]) -> None:
    assert found(rule.bad).count(rule.id) >= 1


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_it_passes_its_good_example(rule: type[StreamingRule]) -> None:
    assert rule.id not in found(rule.good)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_it_says_why_and_where_that_is_written(rule: type[StreamingRule]) -> None:
    assert rule.shortdesc
    assert rule.description
    assert rule.source_url.startswith("https://docs.aws.amazon.com/")
    assert rule.__doc__ is not None
    # Its id, then what it finds.
    assert rule.__doc__.startswith(f"{rule.id}: ")
    assert rule.id[:2] in ("E9", "W9"), "cfn-lint leaves these to others"


def test_cfn_lint_takes_them_alone_by_module_and_by_folder() -> None:
    import headrace.lint.rules as package

    ids = sorted(rule.id for rule in RULES)
    assert sorted(Rules.create_from_module("headrace.lint.rules")) == ids
    assert sorted(Rules.create_from_directory(package.__path__[0])) == ids
