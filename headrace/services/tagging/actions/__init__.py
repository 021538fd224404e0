"""The tagging API's operations."""

from __future__ import annotations

from headrace.aws.calls.operation import Action
from headrace.services.tagging.actions.tags import (
    get_resources,
    get_tag_keys,
    get_tag_values,
    tag_resources,
    untag_resources,
)

ACTIONS: list[Action] = [
    get_resources,
    get_tag_keys,
    get_tag_values,
    tag_resources,
    untag_resources,
]
