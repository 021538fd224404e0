"""Says which names stored state uses that do not belong into it, without importing or constructing anything of them."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any

from headrace.moto.storage.stored_names import MODULE, is_known

# The bytes with which pickled state begins; other rows hold JSON or MessagePack.
PICKLED = b"\x80"


class _Inert(dict[Any, Any]):
    """Stands for every object: takes whatever state sets, appends or adds, and does nothing."""

    def __new__(cls, *_: Any) -> _Inert:
        return dict.__new__(cls)

    def __init__(self, *_: Any) -> None:
        super().__init__()

    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]

    def __setstate__(self, state: object) -> None:
        """Discard it."""

    def __call__(self, *_: Any) -> _Inert:
        return _Inert()

    def extend(self, items: Any) -> None:
        """Discard them."""

    append = add = extend


def _inert_class(*_: Any) -> type[_Inert]:
    """Stand for `stored_names.named` too: what it returns may be a class, of which state makes objects."""
    return type("Inert", (_Inert,), {})


class _Inspector(pickle.Unpickler):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.unknown: dict[str, None] = {}

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if not is_known(module_name, global_name):
            self.unknown[f"{module_name}.{global_name}"] = None
        if (module_name, global_name) == (MODULE, "named"):
            return _inert_class
        return _inert_class()


def foreign_names(data: bytes) -> Iterator[str]:
    """Yield the names in pickled state that it may not have, and last what keeps it from being read."""
    inspector, problem = _Inspector(data), ""
    try:
        inspector.load()
    except Exception as error:  # noqa: BLE001 - damaged or hostile bytes raise anything
        problem = f"what cannot be read ({type(error).__name__}: {error})"
    yield from inspector.unknown
    if problem:
        yield problem
