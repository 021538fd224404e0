"""No template freezes the cloud, swells it, or leaves a stack that does not end.

Each of template_bombs.py is sent, and what became a stack is deleted again. AWS's own sentences are recorded or
observed as `headrace/services/cloudformation/template/template_checks.py` says; the others are headrace's.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.security.child import rows_of
from tests.security.template_bombs import BOMBS

# A bomb takes fractions of a second, those of 150 resources a few; before, minutes to for ever.
SILENT_S = 60
MOST_SECONDS_A_BOMB = 30
# 250 MiB are the cloud, moto and boto3.
MOST_MEMORY_MIB = 700

TOO_MUCH = "functions produce more than 4,000,000 bytes"
SAID = {
    "yaml_aliases": "YAML aliases are not allowed in CloudFormation templates",
    "yaml_alias_of_itself": "YAML aliases are not allowed in CloudFormation templates",
    "yaml_merge_keys": "Invalid template resource property '<<'",
    "yaml_flow_20_000_deep": "nested more than 100 levels deep",
    "yaml_block_20_000_deep": "nested more than 100 levels deep",
    "yaml_python_objects": "YAML not well-formed",
    "yaml_binary": "YAML not well-formed",
    "yaml_sexagesimal": "CREATE_COMPLETE",
    "yaml_long_numbers": "Value of property {/Analytics} does not match type {String}",
    "yaml_keys_twice": "duplicate key 'R'",
    "yaml_keys_that_are_lists": "a key is no text",
    "json_20_000_deep": "nested more than 100 levels deep",
    "json_101_deep": "nested more than 100 levels deep",
    "json_long_numbers": "Value of property {/Analytics} does not match type {String}",
    "json_nan": "JSON not well-formed",
    "json_keys_twice": "duplicate key 'R'",
    "json_null": "[/Outputs/O/Value] 'null' values are not allowed in templates",
    "json_lone_surrogates": "Template format error: JSON not well-formed. (half of a surrogate pair)",
    "joins_of_joins": TOO_MUCH,
    "subs_of_subs": TOO_MUCH,
    "texts_of_texts": TOO_MUCH,
    "a_long_delimiter_that_an_extension_settles": TOO_MUCH,
    "base64_of_base64": TOO_MUCH,
    "splits_joined": TOO_MUCH,
    "lists_referred_to_often": TOO_MUCH,
    "mappings_referred_to_often": TOO_MUCH,
    "cidrs_2_000_000": "count is not between 1 and 256",
    "cidrs_of_the_whole_internet": "ValidationError: Template error: every Fn::Cidr object requires",
    "cidrs_joined": TOO_MUCH,
    "select_far_away": "Template error: Fn::Select requires a list argument with two elements",
    "names_of_a_sub": "CREATE_COMPLETE",
    "dynamic_references": "Dynamic references count 61 is greater than max allowed 60",
    "a_dynamic_reference_to_itself": "CREATE_COMPLETE",
    "a_condition_of_itself": "Found circular condition dependency: A",
    "conditions_in_a_circle": "Found circular condition dependency: A, B, C",
    "conditions_that_double": "CREATE_COMPLETE",
    "conditions_in_a_long_chain": "CREATE_COMPLETE",
    "conditions_that_all_resources_ask": "CREATE_COMPLETE",
    "resources_in_a_circle": "Circular dependency between resources: [A, B]",
    "resources_that_all_depend": "CREATE_COMPLETE",
    "rules_that_say_nothing": "Rule R must contain Assertions",
    "resources_501": "Number of resources, 501, is greater than maximum allowed, 500",
    "parameters_201": "Parameter count 201 is greater than max allowed 200",
    "outputs_201": "Outputs count 201 is greater than max allowed 200",
    "mappings_201": "Mappings count 201 is greater than max allowed 200",
    "mapping_attributes_201": "Mapping M attributes count 201 is greater than max allowed 200",
    "a_name_of_256": "is longer than 255 characters",
    "a_description_of_1_025": "'Description' length is greater than 1024.",
    "a_default_of_4_097": "The default of parameter 'P' is longer than 4096 bytes",
    "a_body_of_51_201": "1 validation error detected: Value '{",
    "a_file_of_1_000_001": "Template may not exceed 1000000 bytes in size.",
    "a_file_of_1_000_000": "CREATE_COMPLETE",
    "properties_that_swell_together": "the properties of all resources have more than 8,000,000 bytes",
    "nonsense": "60 answers",
}


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("bombs")
    rows = rows_of("tests.security.template_bombs", folder, silent_s=SILENT_S)
    return {row["bomb"]: row for row in rows}


def test_every_bomb_has_its_sentence():
    assert set(SAID) == {*BOMBS, "nonsense"}


@pytest.mark.parametrize(("bomb", "said"), SAID.items())
def test_a_bomb_is_answered_and_leaves_nothing(
    sent: dict[str, dict[str, Any]], bomb: str, said: str
):
    assert bomb in sent, "the cloud froze or fell, or did so before"
    assert said in sent[bomb]["said"]
    assert sent[bomb]["seconds"] < MOST_SECONDS_A_BOMB
    assert sent[bomb]["memory_mib"] < MOST_MEMORY_MIB
