"""Stores growing dictionaries of moto's models as rows, a row for each value."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from headrace.moto.storage.changes import CHANGES, RowKey, Rows
from headrace.moto.storage.pickles import dump, load
from headrace.moto.storage.stored_names import stored_as


@stored_as("kept_dict")
class KeptDict(OrderedDict[Any, Any]):
    """A dictionary of a moto model, stored as rows: each row is a pickled value.

    Values must be replaced, not changed in place, and must not refer to the object that contains the dictionary.
    """

    def __init__(self, rows: DictRows) -> None:
        super().__init__()
        self.rows = rows
        rows.values = self

    def __reduce__(self) -> Any:
        return KeptDict, (self.rows,)

    def __deepcopy__(self, memo: Any) -> Any:
        import copy

        return OrderedDict((key, copy.deepcopy(value, memo)) for key, value in self.items())

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        CHANGES.row(self.rows, key)

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        CHANGES.row(self.rows, key)

    def pop(self, key: Any, *default: Any, **named: Any) -> Any:
        """See `OrderedDict.pop`."""
        CHANGES.row(self.rows, key)
        return super().pop(key, *default, **named)

    def clear(self) -> None:
        """See `dict.clear`."""
        CHANGES.all_rows(self.rows)
        super().clear()


class DictRows(Rows):
    """The rows of a `KeptDict`; a subclass names the service."""

    values: KeptDict

    def encode_row(self, key: Any) -> bytes | None:
        """See `Rows.encode_row`."""
        return dump(self.values[key]) if key in self.values else None

    def keys(self) -> Iterable[Any]:
        """See `Rows.keys`."""
        return list(self.values)

    def load(self, rows: Iterable[tuple[RowKey, bytes]]) -> None:
        """See `Rows.load`."""
        for key, value in rows:
            OrderedDict.__setitem__(self.values, key, load(value))
