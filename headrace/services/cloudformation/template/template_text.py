"""Reads the JSON or YAML text of a template, in bounded time and space. Pure functions.

As on AWS, YAML has no aliases, no merge keys and no tags but plain types and the short forms of functions:
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-formats.html (documented).

Finds a request's template text: its TemplateBody, or the object that its TemplateURL names in this cloud's S3.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import yaml

from headrace.aws.shapes.cloudformation import (
    CreateChangeSetInput,
    CreateStackInput,
    CreateStackSetInput,
    GetTemplateSummaryInput,
    UpdateStackInput,
    UpdateStackSetInput,
    ValidateTemplateInput,
)
from headrace.core.ports import BucketNotFound, ObjectNotFound, ObjectStore
from headrace.services.cloudformation import errors
from headrace.services.cloudformation.errors import TemplateError, too_long

TemplateRequest = (
    CreateStackInput
    | UpdateStackInput
    | CreateChangeSetInput
    | CreateStackSetInput
    | UpdateStackSetInput
    | ValidateTemplateInput
    | GetTemplateSummaryInput
)

_HOST_STYLE = re.compile(r"(?P<bucket>.+?)\.s3[.-].*")
_PATH_STYLE = re.compile(r"s3[.-].*")


def template_text(request: TemplateRequest, objects: ObjectStore, endpoint_url: str) -> str:
    """Return the template text that a request contains or links to. Raises TemplateError."""
    body, url = request.get("TemplateBody"), request.get("TemplateURL")
    if body and url:
        raise TemplateError("You cannot specify both Template URL and Template Body")
    if body:
        text = str(body)
        if refusal := too_long(text, "templateBody", errors.BODY_BYTES):
            raise refusal
        return text
    if not url:
        raise TemplateError("Either Template URL or Template Body must be specified.")
    return object_text(str(url), objects, endpoint_url)


def read_included_text(url: str, objects: ObjectStore, endpoint_url: str) -> str:
    """Return the text that AWS::Include inserts. Raises TemplateError, which names a missing bucket (recorded)."""
    bucket, key = _bucket_and_key(url, endpoint_url)
    try:
        objects.file(bucket, key)
    except BucketNotFound as error:
        raise TemplateError(f"S3 bucket [{bucket}] does not exist.") from error
    except ObjectNotFound as error:
        raise TemplateError("The specified key does not exist.") from error  # assumed
    return object_text(url, objects, endpoint_url)


def object_text(url: str, objects: ObjectStore, endpoint_url: str) -> str:
    """Return the text of the object at an S3 address. Raises TemplateError."""
    bucket, key = _bucket_and_key(url, endpoint_url)
    try:
        # The size is checked first: an object may have terabytes.
        if objects.file(bucket, key).stat().st_size > errors.URL_BODY_BYTES:
            raise TemplateError(f"Template may not exceed {errors.URL_BODY_BYTES} bytes in size.")
        return objects.get(bucket, key).decode("utf-8-sig")
    except (BucketNotFound, ObjectNotFound, FileNotFoundError) as error:
        raise TemplateError(
            "S3 error: The specified key does not exist. For more information check"
            " http://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html"
        ) from error
    except UnicodeDecodeError as error:
        raise TemplateError(f"Template format error: {url} is not text.") from error


def _bucket_and_key(url: str, endpoint_url: str) -> tuple[str, str]:
    """Return (bucket, key) of an S3 address, path-style or host-style. Raises TemplateError."""
    parts = urlsplit(url)
    path = unquote(parts.path.lstrip("/"))
    host = parts.hostname or ""
    if parts.scheme == "s3":  # recorded
        raise TemplateError(f"S3 error: Domain name specified in {host} is not a valid S3 domain")
    if parts.scheme in ("http", "https"):
        host_style = _HOST_STYLE.fullmatch(host)
        if host_style is not None:
            return host_style.group("bucket"), path
        if (
            _PATH_STYLE.fullmatch(host)
            or host == urlsplit(endpoint_url).hostname
            or host == "localhost"
        ):
            bucket, _, key = path.partition("/")
            return bucket, key
    raise TemplateError("TemplateURL must be a supported URL.")


# JSON can contain halves of surrogate pairs, which are not valid text.
_HALVES = re.compile("[\ud800-\udfff]")
_TOO_DEEP = f"Template format error: the template is nested more than {errors.NESTED} levels deep"


def load(body: str) -> Any:
    """Return the value of the text. Raises TemplateError."""
    value = _load_json(body) if body.lstrip()[:1] == "{" else _load_yaml(body)
    _check_values(value)
    return value


def _check_values(value: Any) -> None:
    """Refuse values that are nested too deeply, and null (the sentence is recorded)."""
    pending: list[tuple[Any, str, int]] = [(value, "", 0)]
    while pending:
        one, path, depth = pending.pop()
        if depth > errors.NESTED + 1:
            raise TemplateError(_TOO_DEEP)
        for key, item in _members(one):
            if _has_half_a_character(key) or _has_half_a_character(item):  # assumed
                raise TemplateError(
                    "Template format error: JSON not well-formed. (half of a surrogate pair)"
                )
            if item is None:
                raise TemplateError(f"[{path}/{key}] 'null' values are not allowed in templates")
            pending.append((item, f"{path}/{key}", depth + 1))


def _has_half_a_character(value: Any) -> bool:
    return isinstance(value, str) and not value.isascii() and _HALVES.search(value) is not None


def _members(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        yield from cast("dict[str, Any]", value).items()
    elif isinstance(value, list):
        yield from enumerate(cast("list[Any]", value))


# --- JSON -------------------------------------------------------------------------------------


def _load_json(body: str) -> Any:
    try:
        return json.loads(
            body,
            object_pairs_hook=_unique_pairs,
            parse_int=_integer,
            parse_float=_number,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        # AWS gives the position after the wrong character (recorded).
        raise TemplateError(
            f"Template format error: JSON not well-formed. (line {error.lineno}, column {error.colno + 1})"
        ) from error
    except ValueError as error:
        raise TemplateError(f"Template format error: JSON not well-formed. ({error})") from error
    except RecursionError as error:
        raise TemplateError(_TOO_DEEP) from error


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, item in pairs:
        if key in value:
            raise ValueError(f"duplicate key {key[: errors.NAME_CHARACTERS]!r}")
        value[key] = item
    return value


def _integer(text: str) -> Any:
    return int(text) if len(text) <= errors.NUMBER_CHARACTERS else text


def _number(text: str) -> Any:
    number = float(text) if len(text) <= errors.NUMBER_CHARACTERS else math.inf
    return number if math.isfinite(number) else text


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


# --- YAML -------------------------------------------------------------------------------------

_TOO_DEEP_FOR_LIBYAML = "exceeded maximum nesting depth"
_REFUSED_HERE = ("duplicate key", "a key is no text")
# libyaml's parser is ten times as fast; PyYAML's own is used where the wheel lacks libyaml.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _load_yaml(body: str) -> Any:
    try:
        # Checked before nodes are composed, since composing recurses at each level and copies aliases.
        _check_events(body)
        return yaml.load(body, Loader=_Loader)
    except yaml.YAMLError as error:
        # libyaml reads ahead, and from 0.2.6 on it has a limit of its own.
        if getattr(error, "problem", None) == _TOO_DEEP_FOR_LIBYAML:
            raise TemplateError(_TOO_DEEP) from error
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
                raise TemplateError(_TOO_DEEP)
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
        return _unique_pairs(pairs)
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
