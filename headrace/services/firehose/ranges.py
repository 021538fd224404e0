"""Checks the buffering hints of destinations and of the Lambda processor against AWS's ranges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.services.firehose.errors import invalid


def check_both(hints: Mapping[str, Any], size: str, interval: str, of: str) -> None:
    """Raise AwsError when only one of a processor's two limits is hints. `of` ends the sentence."""
    if (size in hints) != (interval in hints):
        raise invalid(
            f"Both BufferSizeInMBs and BufferIntervalInSeconds are required to configure buffering{of}."
        )


def check_between(name: str, value: float, least: float, most: float) -> None:
    """Raise AwsError for a number out of range."""
    if not least <= value <= most:
        raise invalid(f"{name} must be between {least} and {most}.")
