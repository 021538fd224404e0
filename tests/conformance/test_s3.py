"""What AWS was recorded to answer, S3 answers: every member of every answer. See `tests.conformance.scenarios`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.s3.lab import S3Lab
from tests.conformance.scenarios import Scenario, answer, differences, load, parameters
from tests.support.clock import FakeClock

SCENARIOS = list(load(Path(__file__).parent / "s3"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[S3Lab, Any]]:
    """One S3 and its client; each test gives it a data directory of its own."""
    lab = S3Lab(tmp_path_factory.mktemp("first"), FakeClock())
    yield lab, lab.client()
    lab.stop()


def _case(scenario: Scenario) -> Any:
    marks = [pytest.mark.slow] if scenario.get("slow") else []
    return pytest.param(scenario, id=f"{scenario['topic']}: {scenario['name']}", marks=marks)


@pytest.mark.parametrize("scenario", [_case(scenario) for scenario in SCENARIOS])
def test_answers_are_awss(shared: tuple[S3Lab, Any], tmp_path: Path, scenario: Scenario):
    lab, client = shared
    lab.clock = FakeClock()
    lab.move(tmp_path)
    known: dict[str, str] = {}
    wrong: list[str] = []
    for number, step in enumerate(scenario["steps"]):
        if "advance_s" in step:
            lab.clock.advance(step["advance_s"])
            continue
        got = answer(client, step["call"], parameters(step["params"], known))
        lines = differences(step["answer"], got, known)
        wrong += [f"{number} {step['call']}{line}" for line in lines]
    assert wrong == []


def test_there_are_scenarios_enough_and_each_says_whence_it_is():
    names = [(scenario["topic"], scenario["name"]) for scenario in SCENARIOS]
    assert len(set(names)) == len(names) >= 150
    assert all(scenario["evidence"] and scenario["steps"] for scenario in SCENARIOS)


def test_a_wrong_answer_is_found():
    wanted = {"status": 200, "VersionId": "<id 1>", "Rules": [{"ID": "a"}]}
    known: dict[str, str] = {}
    assert (
        differences(wanted, {"status": 200, "VersionId": "x", "Rules": [{"ID": "a"}]}, known) == []
    )
    got = {"status": 404, "VersionId": "y", "Rules": [], "More": 1}
    assert len(differences(wanted, got, known)) == 4
