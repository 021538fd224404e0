"""A resource with its tags, as the tagging API shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaggedResource:
    """A resource's ARN and its tags."""

    arn: str
    tags: Mapping[str, str]
