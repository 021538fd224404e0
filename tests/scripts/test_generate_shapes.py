"""How scripts.generate_shapes writes a structure of a botocore model."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.model import ServiceModel

from scripts.generate_shapes import structures, typed_dict

MEMBERS = {"Name": {"shape": "Text"}, "Tags": {"shape": "Tags"}}
SHAPES: dict[str, Any] = {
    "Text": {"type": "string"},
    "Tags": {"type": "list", "member": {"shape": "Tag"}},
    "Tag": {"type": "structure", "members": {"Key": {"shape": "Text"}}},
    "Empty": {"type": "structure", "members": {}},
    "Half": {"type": "structure", "required": ["Name"], "members": MEMBERS},
    "Open": {"type": "structure", "members": MEMBERS},
    "Keyword": {"type": "structure", "members": {"from": {"shape": "Text"}}},
    "Dashed": {"type": "structure", "members": {"x-name": {"shape": "Text"}}},
}


def text_of(name: str) -> str:
    model = ServiceModel({"metadata": {}, "operations": {}, "shapes": SHAPES}, "toy")
    return typed_dict(name, structures(model)[name])


def test_a_structure_is_a_class_with_a_line_for_each_member():
    assert text_of("Half") == (
        'class Half(TypedDict):\n    Name: str\n    Tags: NotRequired[list["Tag"]]\n'
    )
    assert text_of("Open") == (
        'class Open(TypedDict, total=False):\n    Name: str\n    Tags: list["Tag"]\n'
    )
    assert text_of("Empty") == "class Empty(TypedDict): ...\n"


@pytest.mark.parametrize("name", ["Keyword", "Dashed"])
def test_a_member_that_no_class_can_have_stops_the_generator(name: str):
    with pytest.raises(SystemExit, match=f"{name} has a member that is no name in Python"):
        text_of(name)
