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
from headrace.services.cloudformation.template.members import unique_pairs

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
            raise TemplateError(errors.TOO_DEEP)
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
            object_pairs_hook=unique_pairs,
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
        raise TemplateError(errors.TOO_DEEP) from error


def _integer(text: str) -> Any:
    return int(text) if len(text) <= errors.NUMBER_CHARACTERS else text


def _number(text: str) -> Any:
    number = float(text) if len(text) <= errors.NUMBER_CHARACTERS else math.inf
    return number if math.isfinite(number) else text


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _load_yaml(body: str) -> Any:
    # Imported with the first template in YAML: PyYAML takes a thirtieth of a cloud's start.
    from headrace.services.cloudformation.template.yaml_text import load_yaml

    return load_yaml(body)
