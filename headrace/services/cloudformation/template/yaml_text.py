"""Reads a template in YAML: plain types and the short forms of functions, no aliases, merge keys or other tags."""

from __future__ import annotations

import math
from typing import Any, cast

import yaml

from headrace.services.cloudformation import errors
from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.template.members import unique_pairs

_TOO_DEEP_FOR_LIBYAML = "exceeded maximum nesting depth"
_REFUSED_HERE = ("duplicate key", "a key is no text")
# libyaml's parser is ten times as fast; PyYAML's own is used where the wheel lacks libyaml.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(body: str) -> Any:
    """Return the value of the text. Raises TemplateError."""
    try:
        # Checked before nodes are composed, since composing recurses at each level and copies aliases.
        _check_events(body)
        return yaml.load(body, Loader=_Loader)
    except yaml.YAMLError as error:
        # libyaml reads ahead, and from 0.2.6 on it has a limit of its own.
        if getattr(error, "problem", None) == _TOO_DEEP_FOR_LIBYAML:
            raise TemplateError(errors.TOO_DEEP) from error
        raise TemplateError(
            f"Template format error: YAML not well-formed. ({_place(error)})"
        ) from error
    except (ValueError, OverflowError, RecursionError) as error:
        raise TemplateError(f"Template format error: YAML not well-formed. ({error})") from error


def _place(error: yaml.YAMLError) -> str:
    """Return the position of a YAML error in AWS's form (reported by many), or headrace's own reason."""
    mark = getattr(error, "problem_mark", None)
    position = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    problem = str(getattr(error, "problem", ""))
    if problem.startswith(_REFUSED_HERE):
        return f"{problem}, {position}"
    return position or " ".join(str(error).split())


def _check_events(body: str) -> None:
    depth = 0
    for event in yaml.parse(body, Loader=_Base):
        if isinstance(event, yaml.AliasEvent):
            # Observed, and reported by many.
            raise TemplateError(
                "Template error: YAML aliases are not allowed in CloudFormation templates"
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > errors.NESTED:
                raise TemplateError(errors.TOO_DEEP)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Loader(_Base):
    """YAML with CloudFormation's short forms; dates stay text, and duplicate keys are refused."""


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[str, Any]:
    pairs: list[tuple[str, Any]] = []
    for key, value in cast("list[tuple[Any, Any]]", node.value):
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.constructor.ConstructorError(None, None, "a key is no text", key.start_mark)
        pairs.append((str(loader.construct_object(key)), loader.construct_object(value, deep=True)))
    try:
        return unique_pairs(pairs)
    except ValueError as error:
        raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from error


def _sequence(loader: Any, node: yaml.SequenceNode) -> list[Any]:
    return loader.construct_sequence(node, deep=True)


def _short_form(loader: Any, suffix: str, node: yaml.Node) -> Any:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = _sequence(loader, node)
    else:
        value = _mapping(loader, cast("yaml.MappingNode", node))
    if suffix in ("Ref", "Condition"):
        return {suffix: value}
    if suffix == "GetAtt" and isinstance(value, str):
        return {"Fn::GetAtt": value.split(".", 1)}
    return {f"Fn::{suffix}": value}


def _yaml_number(loader: Any, node: yaml.ScalarNode) -> Any:
    """Return a number; text that is too long for one, or is not a finite number (.nan, .inf), stays text."""
    text = str(loader.construct_scalar(node))
    if len(text) > errors.NUMBER_CHARACTERS:
        return text
    integer = node.tag == "tag:yaml.org,2002:int"
    number = loader.construct_yaml_int(node) if integer else loader.construct_yaml_float(node)
    return number if math.isfinite(number) else text


def _set_up(loader: Any) -> None:
    kept = ("null", "bool", "str")
    tags = {f"tag:yaml.org,2002:{name}" for name in kept}
    # A tag that has no constructor (!!binary, !!set, !!python/object) is refused.
    loader.yaml_constructors = {
        tag: constructor
        for tag, constructor in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag in tags
    }
    loader.yaml_multi_constructors = {}
    loader.add_constructor("tag:yaml.org,2002:map", _mapping)
    loader.add_constructor("tag:yaml.org,2002:seq", _sequence)
    for name in ("int", "float"):
        loader.add_constructor(f"tag:yaml.org,2002:{name}", _yaml_number)
    loader.add_multi_constructor("!", _short_form)
    left_out = {f"tag:yaml.org,2002:{name}" for name in ("timestamp", "merge", "value")}
    loader.yaml_implicit_resolvers = {
        letter: [(tag, pattern) for tag, pattern in resolvers if tag not in left_out]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_set_up(_Loader)
