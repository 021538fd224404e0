"""Glue's partition indexes are kept with their table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import MotoLab

TABLE = {"DatabaseName": "d", "TableName": "t"}


@pytest.fixture
def glue(tmp_path: Path) -> Iterator[Any]:
    with MotoLab(tmp_path / "moto") as lab:
        client = lab.client("glue")
        client.create_database(DatabaseInput={"Name": "d"})
        yield client


def create_table(glue: Any, *indexes: dict[str, Any]) -> None:
    keys = [{"Name": "day", "Type": "date"}, {"Name": "hour", "Type": "int"}]
    made = {"Name": "t", "PartitionKeys": keys, "StorageDescriptor": {"Columns": []}}
    glue.create_table(DatabaseName="d", TableInput=made, PartitionIndexes=[*indexes])


def index(name: str, *keys: str) -> dict[str, Any]:
    return {"IndexName": name, "Keys": [*keys]}


def shown(glue: Any) -> dict[str, Any]:
    described = glue.get_partition_indexes(**TABLE)["PartitionIndexDescriptorList"]
    return {one["IndexName"]: one for one in described}


def refused(call: Any, **parameters: Any) -> str:
    with pytest.raises(ClientError) as refusal:
        call(**parameters)
    return refusal.value.response["Error"]["Code"]  # type: ignore[reportTypedDictNotRequiredAccess]


def test_indexes_come_with_a_table_and_by_calls_and_go_with_it(glue: Any) -> None:
    create_table(glue, index("by_day", "day"))
    glue.create_partition_index(**TABLE, PartitionIndex=index("both", "day", "hour"))
    assert shown(glue)["both"] == {
        "IndexName": "both",
        "Keys": [{"Name": "day", "Type": "date"}, {"Name": "hour", "Type": "int"}],
        "IndexStatus": "ACTIVE",
    }
    assert list(shown(glue)) == ["by_day", "both"]
    glue.delete_partition_index(**TABLE, IndexName="by_day")
    assert list(shown(glue)) == ["both"]
    glue.delete_table(DatabaseName="d", Name="t")
    create_table(glue)
    assert shown(glue) == {}


def test_what_glue_refuses_is_refused(glue: Any) -> None:
    assert refused(glue.get_partition_indexes, **TABLE) == "EntityNotFoundException"
    with pytest.raises(ClientError, match="Index key other is not a partition key"):
        create_table(glue, index("i", "other"))
    create_table(glue, *(index(f"i{n}", "day") for n in range(2)))
    create = glue.create_partition_index
    assert refused(create, **TABLE, PartitionIndex=index("i0", "day")) == "AlreadyExistsException"
    assert refused(create, **TABLE, PartitionIndex=index("n", "x")) == "InvalidInputException"
    create(**TABLE, PartitionIndex=index("i2", "hour"))
    assert (
        refused(create, **TABLE, PartitionIndex=index("i3", "day"))
        == "ResourceNumberLimitExceededException"
    )
    assert refused(glue.delete_partition_index, **TABLE, IndexName="none") == (
        "EntityNotFoundException"
    )
