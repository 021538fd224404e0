"""The page of clouds is made of what was seen; the pipeline's benchmark takes its goals from LocalStack's figures."""

from __future__ import annotations

import pytest

from scripts import clouds
from scripts.benchmarks import pipeline
from scripts.benchmarks.lambda_rows import Row
from tests.integration.differences import (
    BROKEN,
    DIFFERENCES,
    DIFFERS,
    GONE,
    SAME,
    Difference,
    verdict,
)


def test_the_page_is_made_of_what_was_seen() -> None:
    seen = [found for product in clouds.CLOUDS if (found := clouds.read(product)) is not None]
    assert [one.cloud.split()[0] for one in seen] == list(clouds.CLOUDS)
    assert clouds.PAGE.read_text() == clouds.page(seen)


@pytest.mark.parametrize("product", clouds.CLOUDS)
def test_what_was_seen_to_differ_is_what_the_table_says(product: str) -> None:
    seen = clouds.read(product)
    assert seen is not None
    found = {name.partition("::")[2]: what for name, what in seen.tests.items() if what}
    assert found == {name: one.what for name, one in DIFFERENCES.get(product, {}).items()}


@pytest.mark.parametrize(
    ("is_known", "error", "judged"),
    [
        (False, None, SAME),
        (False, AssertionError("assert 2 == 1"), BROKEN),
        (True, AssertionError("assert 2 == 1"), DIFFERS),
        (True, ConnectionError("refused"), BROKEN),
        (True, None, GONE),
    ],
)
def test_a_known_difference_must_show_itself_in_its_own_words(
    is_known: bool, error: Exception | None, judged: str
) -> None:
    known = Difference("AssertionError: assert 2 == 1", "two objects") if is_known else None
    assert verdict(known, error) == judged


def test_headrace_is_not_listed_as_different() -> None:
    assert "headrace" not in DIFFERENCES


def test_a_note_is_numbered_once() -> None:
    one = clouds.Seen("x 1", {"test_jobs::test_a_b": "no", "test_jobs::test_c": "no"})
    page = clouds.page([clouds.Seen("headrace", {"test_jobs::test_a_b": ""}), one])
    assert "| a b | yes | 1 |" in page
    assert "| c | not run | 1 |" in page
    assert page.endswith("\n1. x 1: no\n")


def test_goals_come_from_localstacks_figures() -> None:
    rate, deployment = pipeline.TRIGGER, "deploy the stack (8 resources)"
    rows = [
        Row(rate, "us", 600.0, "records/s", None, True),
        Row(rate, "them", 10.0, "records/s", None, True),
        Row(deployment, "us", 4.0, "s"),
        Row(deployment, "them", 9.0, "s"),
    ]
    found = pipeline.with_goals(rows, "us", "them")
    assert [(row.goal, row.is_met) for row in found] == [
        (500.0, True),
        (None, None),
        (3.0, False),
        (None, None),
    ]
