"""Glue's schema registry: a version follows others as its schema's compatibility allows.

Documented: "Schema versioning and compatibility" in Glue's developer guide; the status FAILURE with a number was
observed by others (streamthoughts/jikkou issue 593).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.services.glue import schema_versions
from tests.support.moto_lab import MotoLab


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoLab]:
    with MotoLab(tmp_path_factory.mktemp("schemas") / "moto") as lab:
        lab.client("glue").create_registry(RegistryName="r")
        yield lab


@pytest.fixture
def glue(lab: MotoLab) -> Any:
    return lab.client("glue")


@pytest.fixture
def schema(glue: Any, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    yield {"RegistryName": "r", "SchemaName": "s"}
    glue.delete_schema(SchemaId={"RegistryName": "r", "SchemaName": "s"})


def record(**fields: Any) -> str:
    """A record's schema; a field is a type, or a type and a default."""
    return json.dumps(
        {
            "type": "record",
            "name": "Flight",
            "fields": [
                {"name": name, "type": of[0], "default": of[1]}
                if isinstance(of, tuple)
                else {"name": name, "type": of}
                for name, of in fields.items()
            ],
        }
    )


DRAFT_4 = "http://json-schema.org/draft-04/schema#"
ONE = record(id="string", delay="int")
MORE = record(id="string", delay="int", gate=(["null", "string"], None))
DEMANDING = record(id="string", delay="int", gate="string")
FEWER = record(id="string")
WIDER = record(id="string", delay="long")
OTHER = record(id="string", delay="string")


def create(glue: Any, compatibility: str, definition: str = ONE, data_format: str = "AVRO") -> Any:
    return glue.create_schema(
        RegistryId={"RegistryName": "r"},
        SchemaName="s",
        DataFormat=data_format,
        Compatibility=compatibility,
        SchemaDefinition=definition,
    )


@pytest.mark.parametrize(
    ("compatibility", "allowed", "failed"),
    [
        ("NONE", [MORE, DEMANDING, FEWER, WIDER, OTHER], []),
        ("BACKWARD", [MORE, FEWER, WIDER], [DEMANDING, OTHER]),
        ("FORWARD", [MORE, DEMANDING], [FEWER, WIDER, OTHER]),
        ("FULL", [MORE], [DEMANDING, FEWER, WIDER, OTHER]),
    ],
)
def test_a_version_that_is_not_compatible_fails(
    glue: Any, compatibility: str, allowed: list[str], failed: list[str]
) -> None:
    named = {"RegistryName": "r", "SchemaName": "s"}
    for definition, status in [
        *((one, "AVAILABLE") for one in allowed), *((one, "FAILURE") for one in failed)
    ]:  # fmt: skip
        create(glue, compatibility)
        answer = glue.register_schema_version(SchemaId=named, SchemaDefinition=definition)
        assert (answer["VersionNumber"], answer["Status"]) == (2, status), definition
        version = glue.get_schema_version(SchemaVersionId=answer["SchemaVersionId"])
        assert version["Status"] == status
        latest = glue.get_schema_version(
            SchemaId=named, SchemaVersionNumber={"LatestVersion": True}
        )
        assert latest["SchemaDefinition"] == (definition if status == "AVAILABLE" else ONE)
        glue.delete_schema(SchemaId=named)


def test_all_versions_are_compared_with_all_alone(glue: Any, schema: dict[str, str]) -> None:
    # The second has no field `delay`; the third has it with another type.
    third = record(id="string", delay=("string", ""))
    for compatibility, status in (("BACKWARD", "AVAILABLE"), ("BACKWARD_ALL", "FAILURE")):
        create(glue, compatibility)
        glue.register_schema_version(SchemaId=schema, SchemaDefinition=FEWER)
        answer = glue.register_schema_version(SchemaId=schema, SchemaDefinition=third)
        assert answer["Status"] == status
        if status == "AVAILABLE":
            glue.delete_schema(SchemaId=schema)


def test_after_a_failure_the_latest_stays_and_numbers_go_on(
    glue: Any, schema: dict[str, str]
) -> None:
    create(glue, "BACKWARD")
    failed = glue.register_schema_version(SchemaId=schema, SchemaDefinition=OTHER)
    again = glue.register_schema_version(SchemaId=schema, SchemaDefinition=OTHER)
    assert again == {**failed, "ResponseMetadata": again["ResponseMetadata"]}
    assert glue.register_schema_version(SchemaId=schema, SchemaDefinition=MORE)["VersionNumber"] == 3  # fmt: skip
    shown = glue.get_schema(SchemaId=schema)
    assert (shown["LatestSchemaVersion"], shown["NextSchemaVersion"]) == (3, 4)
    versions = glue.list_schema_versions(SchemaId=schema)["Schemas"]
    assert [(one["VersionNumber"], one["Status"]) for one in versions] == [
        (1, "AVAILABLE"), (2, "FAILURE"), (3, "AVAILABLE")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("data_format", "definition"),
    [
        ("AVRO", "{"),
        ("AVRO", '{"type": "record", "name": "R"}'),
        ("AVRO", '{"type": "records"}'),
        ("AVRO", '{"type": "array", "items": ' * 3000 + '"int"' + "}" * 3000),
        ("JSON", '{"type": "objects"}'),
        ("JSON", '{"not": ' * 3000 + "{}" + "}" * 3000),
        ("JSON", '{"pattern": "a{99999999999999999999}"}'),
        # Comparing each value with each would take minutes.
        (
            "JSON",
            json.dumps({"$schema": DRAFT_4, "properties": {"a": {"enum": [{}, *range(20_000)]}}}),
        ),
        ("JSON", "no"),
    ],
)
def test_what_is_no_schema_is_refused(glue: Any, data_format: str, definition: str) -> None:
    with pytest.raises(ClientError, match=f"Schema definition of {data_format} data format is inv"):
        create(glue, "NONE", definition, data_format)
    answer = glue.check_schema_version_validity(DataFormat=data_format, SchemaDefinition=definition)
    assert answer["Valid"] is False
    assert answer["Error"]


def test_schemas_that_are_too_large_to_compare_are_refused(
    glue: Any, schema: dict[str, str]
) -> None:
    branches = [{"type": "fixed", "name": f"a{n}", "size": 1} for n in range(200)]
    create(glue, "BACKWARD", json.dumps(branches))
    branches[0]["size"] = 2
    with pytest.raises(ClientError, match="headrace does not compare schemas of so many types"):
        glue.register_schema_version(SchemaId=schema, SchemaDefinition=json.dumps(branches))
    assert len(glue.list_schema_versions(SchemaId=schema)["Schemas"]) == 1


def test_the_comparisons_with_all_versions_have_a_bound_together(
    glue: Any, schema: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    create(glue, "BACKWARD_ALL")
    monkeypatch.setattr(schema_versions, "_MOST_S", -1.0)
    with pytest.raises(ClientError, match="headrace does not compare schemas of so many types"):
        glue.register_schema_version(SchemaId=schema, SchemaDefinition=MORE)


def test_a_schema_is_valid(glue: Any) -> None:
    for data_format, definition in (("AVRO", MORE), ("JSON", '{"type": "object"}')):
        answer = glue.check_schema_version_validity(
            DataFormat=data_format, SchemaDefinition=definition
        )
        assert (answer["Valid"], answer.get("Error")) == (True, None)
    with pytest.raises(ClientError, match="headrace does not parse Protocol Buffers"):
        glue.check_schema_version_validity(DataFormat="PROTOBUF", SchemaDefinition="message A {}")


def test_versions_are_deleted_but_for_the_checkpoint(glue: Any, schema: dict[str, str]) -> None:
    create(glue, "BACKWARD")
    for definition in (MORE, WIDER):
        glue.register_schema_version(SchemaId=schema, SchemaDefinition=definition)
    errors = glue.delete_schema_versions(SchemaId=schema, Versions="1-2")["SchemaVersionErrors"]
    assert [(e["VersionNumber"], e["ErrorDetails"]["ErrorCode"]) for e in errors] == [
        (1, "InvalidInputException")
    ]
    versions = glue.list_schema_versions(SchemaId=schema)["Schemas"]
    assert [one["VersionNumber"] for one in versions] == [1, 3]
    glue.delete_schema_versions(SchemaId=schema, Versions="3")
    assert glue.get_schema(SchemaId=schema)["LatestSchemaVersion"] == 1


def test_metadata_is_put_queried_and_removed(glue: Any, schema: dict[str, str]) -> None:
    version = create(glue, "NONE")["SchemaVersionId"]
    for key, value in (("team", "a"), ("team", "b"), ("topic", "t")):
        glue.put_schema_version_metadata(
            SchemaVersionId=version, MetadataKeyValue={"MetadataKey": key, "MetadataValue": value}
        )

    def query(**asked: Any) -> dict[str, list[str]]:
        answer = glue.query_schema_version_metadata(SchemaVersionId=version, **asked)
        assert answer["SchemaVersionId"] == version
        return {
            key: [info["MetadataValue"]]
            + [one["MetadataValue"] for one in info.get("OtherMetadataValueList", [])]
            for key, info in answer["MetadataInfoMap"].items()
        }

    assert query() == {"team": ["b", "a"], "topic": ["t"]}
    assert query(MetadataList=[{"MetadataKey": "topic"}]) == {"topic": ["t"]}
    assert query(MetadataList=[{"MetadataKey": "team", "MetadataValue": "a"}]) == {"team": ["a"]}
    removed = glue.remove_schema_version_metadata(
        SchemaVersionId=version, MetadataKeyValue={"MetadataKey": "topic", "MetadataValue": "t"}
    )
    assert (removed["SchemaName"], removed["VersionNumber"], removed["LatestVersion"]) == ("s", 1, True)  # fmt: skip
    assert query() == {"team": ["b", "a"]}
    with pytest.raises(ClientError, match="Metadata is not found"):
        glue.remove_schema_version_metadata(
            SchemaVersionId=version, MetadataKeyValue={"MetadataKey": "topic", "MetadataValue": "t"}
        )


def test_schemas_are_listed_by_pages(glue: Any, schema: dict[str, str]) -> None:
    create(glue, "NONE")
    for name in ("t", "u"):
        glue.create_schema(
            SchemaName=name, DataFormat="AVRO", Compatibility="NONE", SchemaDefinition=ONE
        )
    in_one = glue.list_schemas(RegistryId={"RegistryName": "r"})["Schemas"]
    assert [one["SchemaName"] for one in in_one] == ["s"]
    pages = glue.get_paginator("list_schemas").paginate(PaginationConfig={"PageSize": 2})
    names = [[one["SchemaName"] for one in page["Schemas"]] for page in pages]
    assert names == [["s", "t"], ["u"]]
    with pytest.raises(ClientError, match="Invalid NextToken"):
        glue.list_schemas(NextToken="?")


def test_a_failed_version_is_one_after_a_restart(tmp_path: Path) -> None:
    with MotoLab(tmp_path / "moto") as lab:
        glue = lab.client("glue")
        glue.create_registry(RegistryName="r")
        create(glue, "BACKWARD")
        named = {"RegistryName": "r", "SchemaName": "s"}
        failed = glue.register_schema_version(SchemaId=named, SchemaDefinition=OTHER)
    with MotoLab(tmp_path / "moto") as lab:
        version = lab.client("glue").get_schema_version(SchemaVersionId=failed["SchemaVersionId"])
        assert version["Status"] == "FAILURE"


def test_a_registry_and_a_schema_are_found_by_their_whole_arns(glue: Any, schema: dict[str, str]):
    made = glue.create_schema(
        RegistryId={"RegistryName": "r"}, SchemaName="s", DataFormat="AVRO", Compatibility="NONE",
        SchemaDefinition=record(a="int"),
    )  # fmt: skip
    registry, arn = made["RegistryArn"], made["SchemaArn"]
    assert glue.get_registry(RegistryId={"RegistryArn": registry})["RegistryName"] == "r"
    assert glue.get_schema(SchemaId={"SchemaArn": arn})["SchemaName"] == "s"
    for here, there in (("us-east-1", "eu-west-1"), ("000000000000", "222222222222")):
        far = {"RegistryArn": registry.replace(here, there)}
        for call, params in (
            (glue.get_registry, {"RegistryId": far}),
            (glue.update_registry, {"RegistryId": far, "Description": "d"}),
            (glue.get_schema, {"SchemaId": {"SchemaArn": arn.replace(here, there)}}),
            (glue.list_schema_versions, {"SchemaId": {"SchemaArn": arn.replace(here, there)}}),
        ):
            with pytest.raises(ClientError, match=f"is not found.*Arn: arn:.*{there}"):
                call(**params)


@pytest.mark.parametrize("data_format", ["AVRO", "JSON", "PROTOBUF"])
def test_a_definition_is_found_whatever_its_spaces(glue: Any, data_format: str):
    definitions = {
        "AVRO": ONE,
        "JSON": json.dumps({"$schema": DRAFT_4, "type": "object"}),
        "PROTOBUF": 'syntax = "proto2"; message M { optional int32 a = 1; }',
    }
    definition, name = definitions[data_format], f"spaces-{data_format}"
    made = glue.create_schema(
        RegistryId={"RegistryName": "r"},
        SchemaName=name,
        DataFormat=data_format,
        Compatibility="NONE",
        SchemaDefinition=definition,
    )
    of = {"RegistryName": "r", "SchemaName": name}
    texts = [definition]
    if data_format != "PROTOBUF":
        texts.append(json.dumps(json.loads(definition), separators=(",", ":")))
        texts.append(json.dumps(json.loads(definition), indent=2))
    for text in texts:
        found = glue.get_schema_by_definition(SchemaId=of, SchemaDefinition=text)
        assert found["SchemaVersionId"] == made["SchemaVersionId"]
    for other in ("{", "[" * 5000, WIDER):
        with pytest.raises(ClientError) as refused:
            glue.get_schema_by_definition(SchemaId=of, SchemaDefinition=other)
        assert refused.value.response["Error"]["Code"] == "EntityNotFoundException"
