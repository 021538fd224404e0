"""An outbox that is full gives up what is oldest, and little of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from headrace.deliveries import outbox
from headrace.deliveries.outbox import ON_FAILURE, Delivery, Outbox
from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.changes import CHANGES
from tests.support.clock import FakeClock

MOST = 100


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[Outbox]:
    """An outbox of deliveries of a rule whose error action is another delivery."""
    monkeypatch.setattr(outbox, "MOST_WAITING", MOST)
    monkeypatch.setattr(CURRENT, "clock", FakeClock())
    full = Outbox()

    def report(context: Mapping[str, Any], _: str) -> None:
        full.add(Delivery(what=f"error of {context['n']}", body=b""))

    monkeypatch.setitem(ON_FAILURE, "report", report)
    for number in range(MOST):
        full.add(original(number))
    yield full
    CHANGES.take()


def original(number: int) -> Delivery:
    return Delivery(
        what=f"original {number}", body=b"", on_failure="report", failure_context={"n": number}
    )


def test_one_too_many_does_not_give_up_all_that_wait(full: Outbox):
    full.add(original(MOST))
    waiting = [one.what for one in full.waiting.values()]
    assert waiting[:2] == ["original 2", "original 3"]
    assert waiting[-3:] == ["error of 0", "error of 1", f"original {MOST}"]


def test_it_stays_bounded_when_each_loss_is_told(full: Outbox):
    sizes: list[int] = []
    for number in range(20 * MOST):
        full.add(original(number))
        sizes.append(len(full.waiting))
    assert max(sizes) <= 2 * MOST
    assert max(sizes[-MOST:]) <= max(sizes[: 4 * MOST])
