"""Parses the YAML that clients send to moto's services, in bounded time and space.

A few hundred bytes of aliases can expand to gigabytes when their values are walked or written out, and a merge key
copies them during parsing. So a document's values are counted with all aliases expanded before anything is built.
CloudFormation's templates have rules of their own: see `headrace.services.cloudformation.template.template_text`.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import yaml

# API Gateway takes documents of 6 MB, SSM of 64 KB; the largest in use have some ten thousand values.
MOST_VALUES = 200_000
MOST_NESTED = 100
# libyaml's parser is twenty times as fast, where PyYAML has it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def safe_load(text: Any) -> Any:
    """Return a document's value, as `yaml.safe_load` does. Raises yaml.YAMLError, also if it expands too far."""
    _check(text)
    return yaml.load(text, Loader=_LOADER)


def _check(text: Any) -> None:
    """Count the values with every alias expanded. Raises yaml.YAMLError."""
    values_of: dict[str, int] = {}
    open_collections: list[tuple[str | None, int]] = []
    values = 0
    for event in yaml.parse(text, Loader=_LOADER):
        match event:
            case yaml.AliasEvent(anchor=anchor):
                if anchor not in values_of:
                    raise yaml.YAMLError(
                        f"the alias {anchor!r} refers to no value, or to one that contains it"
                    )
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
                f"the document has more than {MOST_VALUES} values with its aliases expanded"
            )


class _Yaml:
    """Replaces PyYAML in moto's modules, with another `safe_load`."""

    safe_load = staticmethod(safe_load)

    def __getattr__(self, name: str) -> Any:
        return getattr(yaml, name)


def patch_yaml(module: ModuleType) -> None:
    """Make a module of moto parse YAML in bounded time and space."""
    vars(module)["yaml"] = _Yaml()


def patch_api_documents(utils: ModuleType) -> None:
    """Do so in `moto.apigateway.utils`, and answer unparsable documents with 400 instead of 500."""
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
