"""A service is stored whole while reads beside it fill dictionaries of moto's."""

from __future__ import annotations

from typing import Any

import pytest
from moto.utilities.tagging_service import TaggingService

from headrace.moto.storage import pickles
from tests.support.moto_lab import ACCOUNT, REGION, MotoLab


def filling(monkeypatch: pytest.MonkeyPatch, lab: MotoLab, times: int) -> dict[Any, Any]:
    """A dictionary of SQS's that another thread seems to fill, so many times, while it is pickled."""
    lab.client("sqs").create_queue(QueueName="q")
    (backend,) = (
        found
        for (*_, account, region), found in pickles.backends_of("sqs").items()
        if (account, region) == (ACCOUNT, REGION)
    )
    seen: dict[Any, Any] = {number: TaggingService() for number in range(3)}
    left = iter(range(times))

    def state(self: TaggingService) -> dict[str, Any]:
        for number in left:
            seen[f"read {number}"] = 0
            break
        return self.__dict__

    monkeypatch.setattr(TaggingService, "__getstate__", state, raising=False)
    monkeypatch.setattr(backend, "seen", seen, raising=False)
    return seen


def test_what_a_read_fills_meanwhile_is_stored_all_the_same(
    lab: MotoLab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seen = filling(monkeypatch, lab, times=2)
    lab.client("sqs").create_queue(QueueName="another")
    assert list(seen) == [0, 1, 2, "read 0", "read 1"]
    assert "cannot be stored" not in caplog.text
    monkeypatch.undo()
    lab.restart()
    found = lab.client("sqs").list_queues()["QueueUrls"]
    assert [url.rpartition("/")[2] for url in found] == ["q", "another"]


def test_what_never_stands_still_is_said(lab: MotoLab, monkeypatch: pytest.MonkeyPatch) -> None:
    filling(monkeypatch, lab, times=1000)
    with pytest.raises(RuntimeError, match="changed size during iteration"):
        pickles.dump_service("sqs")
