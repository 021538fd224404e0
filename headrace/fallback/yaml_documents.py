"""Reads YAML that clients send to moto's services, in bounded time and space.

A few hundred bytes of aliases stand for gigabytes once somebody walks or writes out what they name, and a merge key
copies them while the text is read. So a document is counted with its aliases written out before anything is made of
it. CloudFormation's templates have rules of their own: see `headrace.services.cloudformation.template_text`.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import yaml

# API Gateway takes documents of 6 MB, SSM of 64 KB; the largest that people keep have some ten thousand values.
MOST_VALUES = 200_000
MOST_NESTED = 100
# libyaml's is twenty times as quick, where PyYAML has it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def safe_load(text: Any) -> Any:
    """Return a document's value, as `yaml.safe_load` does. Raises yaml.YAMLError, also for what would explode."""
    _check(text)
    return yaml.load(text, Loader=_LOADER)


def _check(text: Any) -> None:
    """Count the values with every alias written out. Raises yaml.YAMLError."""
    values_of: dict[str, int] = {}
    open_collections: list[tuple[str | None, int]] = []
    values = 0
    for event in yaml.parse(text, Loader=_LOADER):
        match event:
            case yaml.AliasEvent(anchor=anchor):
                if anchor not in values_of:
                    raise yaml.YAMLError(f"the alias {anchor!r} names what it is part of")
                values += values_of[anchor]
            case yaml.ScalarEvent(anchor=anchor):
                values += 1
                if anchor is not None:
                    values_of[anchor] = 1
            case yaml.CollectionStartEvent(anchor=anchor):
                if anchor is not None:
                    values_of.pop(anchor, None)
                open_collections.append((anchor, values))
                values += 1
                if len(open_collections) > MOST_NESTED:
                    raise yaml.YAMLError(f"nested more than {MOST_NESTED} levels deep")
            case yaml.CollectionEndEvent():
                anchor, before = open_collections.pop()
                if anchor is not None:
                    values_of[anchor] = values - before
            case _:
                pass
        if values > MOST_VALUES:
            raise yaml.YAMLError(
                f"the document has more than {MOST_VALUES} values, its aliases written out"
            )


class _Yaml:
    """PyYAML for moto's modules, with another `safe_load`."""

    safe_load = staticmethod(safe_load)

    def __getattr__(self, name: str) -> Any:
        return getattr(yaml, name)


def patch_yaml(module: ModuleType) -> None:
    """Have a module of moto's read YAML in bounded time and space."""
    vars(module)["yaml"] = _Yaml()


def patch_api_documents(utils: ModuleType) -> None:
    """Have `moto.apigateway.utils` do so, and answer what cannot be read with 400 rather than 500."""
    from moto.apigateway.exceptions import BadRequestException

    patch_yaml(utils)
    deserialize: Any = utils.deserialize_body

    @functools.wraps(deserialize)
    def deserialize_body(body: str) -> Any:
        try:
            return deserialize(body)
        except (yaml.YAMLError, RecursionError) as error:
            line = " ".join(str(error).split())
            raise BadRequestException(f"Unable to parse API definition: {line}") from error

    vars(utils)["deserialize_body"] = deserialize_body
