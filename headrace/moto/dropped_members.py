"""The input members that moto takes and drops: the fidelity tables of moto's services, *ignored* throughout.

`python -m scripts.dropped_members` writes the file; it says how it knows.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path

from headrace.core.ports import FidelityLevel

FILE = Path(__file__).with_suffix(".json")


@functools.cache
def dropped_members() -> Mapping[str, Mapping[str, Mapping[str, FidelityLevel]]]:
    """Return the dropped members by service and operation; the level of each is *ignored*."""
    services: dict[str, dict[str, list[str]]] = json.loads(FILE.read_text())
    return {
        service: {name: dict.fromkeys(members, "ignored") for name, members in operations.items()}
        for service, operations in services.items()
    }
