"""Which versions of moto headrace works with."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

import pytest

from headrace.aws.protocols.moto_imports import BEFORE, LOWEST, MotoUnsuited, check_version

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("version", ["5.2.5", "5.2.19", "5.2.5.dev0"])
def test_versions_that_work(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["4.2.14", "5.1.22", "5.2.4", "5.3.0", "6.0"])
def test_others_are_named_in_a_sentence(version: str) -> None:
    with pytest.raises(
        MotoUnsuited, match=rf"works with moto 5.2.5 and newer, below 5.3; {version}"
    ):
        check_version(version)


def test_the_installed_one_works_and_the_range_is_the_packages() -> None:
    check_version(importlib.metadata.version("moto"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (moto,) = [one for one in project["dependencies"] if one.startswith("moto[")]
    lowest, before = (".".join(map(str, bound)) for bound in (LOWEST, BEFORE))
    assert moto.endswith(f">={lowest},<{before}")
    lines = (ROOT / "requirements" / "lowest.txt").read_text().splitlines()
    assert f"moto=={lowest}" in lines


def test_the_lowest_versions_begin_the_ranges() -> None:
    """Those of all dependencies, and of the extras of which the core's tests make use; see `scripts/test --lowest`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "requirements" / "lowest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    extras = project["optional-dependencies"]
    ranges = [
        *project["dependencies"],
        *extras["parquet"],
        *extras["iceberg"],
        *extras["testing"],
        *extras["sam"],
    ]
    ranges = [one for one in ranges if not one.startswith(("pytest", "headrace"))]
    assert len(pinned) == len(ranges)
    for one in ranges:
        name, _, rest = one.partition(">=")
        lowest = rest.partition(",")[0]
        pin = pinned[name.partition("[")[0]]
        assert pin == lowest or pin.startswith(f"{lowest}."), name
