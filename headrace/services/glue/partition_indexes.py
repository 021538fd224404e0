"""Glue's partition indexes: kept with their table and shown; no query here needs them.

The sentences of the refusals are assumed; the codes and the limit of three are documented.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
from typing import Any

_MOST = 3


def add_calls(module: Any) -> None:
    """Add the calls for partition indexes, also those that a new table brings."""
    create = module.GlueResponse.create_table

    @functools.wraps(create)
    def create_table(self: Any) -> Any:
        # Checked before, so that a refused request leaves no table.
        table = self.parameters.get("TableInput") or {}
        columns = table.get("PartitionKeys") or []
        made: dict[str, Any] = {}
        for index in self.parameters.get("PartitionIndexes") or []:
            _add(made, index, columns)
        answer = create(self)
        _indexes(self._of_table(table["Name"])).update(made)
        return answer

    def of_table(self: Any, name: str) -> Any:
        return self.glue_backend.get_table(self._get_param("DatabaseName"), name)

    module.GlueResponse._of_table = of_table
    for call in (
        create_table,
        create_partition_index,
        get_partition_indexes,
        delete_partition_index,
    ):
        setattr(module.GlueResponse, call.__name__, call)


def _indexes(table: Any) -> dict[str, Any]:
    # A table that was stored before has none.
    return vars(table).setdefault("partition_indexes", {})


def _add(there: dict[str, Any], index: dict[str, Any], columns: list[dict[str, Any]]) -> None:
    """Add an index by its name. Raises Glue's refusals."""
    from moto.glue.exceptions import (
        AlreadyExistsException,
        InvalidInputException,
        ResourceNumberLimitExceededException,
    )

    types = {column["Name"]: column.get("Type", "string") for column in columns}
    for key in index["Keys"]:
        if key not in types:
            raise InvalidInputException("", f"Index key {key} is not a partition key of the table.")
    if index["IndexName"] in there:
        raise AlreadyExistsException("Partition index")
    if len(there) == _MOST:
        raise ResourceNumberLimitExceededException(
            f"A table has at most {_MOST} partition indexes."
        )
    there[index["IndexName"]] = {
        "IndexName": index["IndexName"],
        "Keys": [{"Name": key, "Type": types[key]} for key in index["Keys"]],
        "IndexStatus": "ACTIVE",
    }


def create_partition_index(self: Any) -> Any:
    """CreatePartitionIndex."""
    from moto.core.responses import EmptyResult

    table = self._of_table(self._get_param("TableName"))
    columns = table.as_dict().get("PartitionKeys") or []
    _add(_indexes(table), self.parameters["PartitionIndex"], columns)
    return EmptyResult()


def get_partition_indexes(self: Any) -> Any:
    """GetPartitionIndexes."""
    from moto.core.responses import ActionResult

    shown = _indexes(self._of_table(self._get_param("TableName")))
    return ActionResult({"PartitionIndexDescriptorList": [*shown.values()]})


def delete_partition_index(self: Any) -> Any:
    """DeletePartitionIndex."""
    from moto.core.responses import EmptyResult
    from moto.glue.exceptions import EntityNotFoundException

    name = self._get_param("IndexName")
    if _indexes(self._of_table(self._get_param("TableName"))).pop(name, None) is None:
        raise EntityNotFoundException(f"Index with the given indexName : {name} does not exist")
    return EmptyResult()
