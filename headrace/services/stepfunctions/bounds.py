"""Step Functions: moto's pattern for JSONPath matches in one way."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

from types import ModuleType


def match_in_one_way(json_path: ModuleType) -> None:
    """Replace a pattern of moto's that takes exponential time."""
    # The text after the slice has no bracket, so that it matches in one way instead of one for every dot.
    vars(json_path)["_PATTERN_SLICE_OR_WILDCARD_ACCESS"] = (
        r"\$(?:\.[^[]+\[(?:\*|\d*:\d*)\]|\[\*\])(?:\.[^[]+)?$"
    )
