"""Checks numbers of buffers against AWS's ranges, in AWS's words: those of destinations and of the Lambda processor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.services.firehose.errors import invalid


def check_both(given: Mapping[str, Any], size: str, interval: str, of: str = "") -> None:
    """Refuse one of a buffer's two limits without the other. Raises AwsError. `of` ends the sentence."""
    if (size in given) != (interval in given):
        raise invalid(
            f"Both BufferSizeInMBs and BufferIntervalInSeconds are required to configure buffering{of}."
        )


def check_between(name: str, value: float, least: float, most: float) -> None:
    """Refuse a number outside of a range. Raises AwsError."""
    if not least <= value <= most:
        raise invalid(f"{name} must be between {least} and {most}.")
