"""The text of a template: bounds that hold whatever the parser's version."""

from __future__ import annotations

import pytest

from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.template.template_text import load

TOO_DEEP = "nested more than 100 levels deep"


@pytest.mark.parametrize("levels", [101, 900, 1_001, 20_000])
def test_flow_and_block_collections_are_too_deep_at_any_depth(levels: int) -> None:
    """libyaml 0.2.6 refuses the thousand-and-first level itself, before headrace sees the first."""
    blocks = "".join(f"{' ' * level}k:\n" for level in range(min(levels, 1_200)))
    for text in ("Resources: " + "[" * levels, "Resources: " + "{a: " * levels, blocks):
        with pytest.raises(TemplateError, match=TOO_DEEP):
            load(text)
