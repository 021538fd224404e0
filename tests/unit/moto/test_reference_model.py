"""What moto's services answer after kill -9 is what they would have answered without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headrace.core.ids import Ids
from tests.support.clock import FakeClock
from tests.support.moto_lab import MotoLab
from tests.unit.moto.reference_model import Twin, readable
from tests.unit.moto.reference_requests import REQUESTS, Ask

KILL = None


def run(folder: Path, steps: list[Ask | None], *, kills: bool) -> tuple[list[Any], dict[str, Any]]:
    """Return the answers to `steps`, and all that can be read after them."""
    with MotoLab(folder, clock=FakeClock(), ids=Ids(7)) as lab:
        twin, answers = Twin(lab), list[Any]()
        for step in steps:
            if step is not KILL:
                answers.append(step(twin))
            elif kills:
                lab.restart()
        if kills:
            lab.restart()
        return answers, readable(twin)


def check(tmp_path_factory: pytest.TempPathFactory, steps: list[Ask | None]) -> None:
    folder = tmp_path_factory.mktemp("twins")
    left_alone = run(folder / "alone", steps, kills=False)
    killed = run(folder / "killed", steps, kills=True)
    assert killed[0] == left_alone[0]
    for name, found in left_alone[1].items():
        assert killed[1][name] == found, name


steps = st.lists(st.one_of(REQUESTS, REQUESTS, REQUESTS, st.just(KILL)), max_size=30)
# Without shrinking, which takes minutes: the steps of a failure are few, and the seed is printed.
quiet = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


@settings(quiet, max_examples=4)
@given(steps)
def test_a_killed_moto_answers_as_one_that_was_not(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Ask | None]
):
    check(tmp_path_factory, steps)


@pytest.mark.slow
@settings(quiet, max_examples=600)
@given(steps)
def test_a_killed_moto_answers_as_one_that_was_not_long(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Ask | None]
):
    check(tmp_path_factory, steps)
