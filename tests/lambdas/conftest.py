"""A function's folder is its root on Lambda; so it is here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EVENTS = ROOT / "tests" / "events"

sys.path.insert(0, str(ROOT / "lambdas" / "enrich"))


@pytest.fixture
def recorded() -> Callable[[str], list[dict[str, Any]]]:
    def load(name: str) -> list[dict[str, Any]]:
        return json.loads((EVENTS / f"{name}.json").read_text())["Records"]

    return load
