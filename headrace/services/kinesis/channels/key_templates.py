"""The keys of a channel's objects: checks output key templates, and evaluates them. Pure functions.

Source: docs.aws.amazon.com/streams/latest/dev/data-delivery-s3-key-template.md (documented). Assumed: the sentences;
the times are those of the delivery; the unique suffix stands before the extension, which ends the key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

DEFAULT_TEMPLATE = (
    "kinesis-channel/!{channel-name}/!{channel-id}/!{yyyy}/!{MM}/!{dd}/!{HH}/"
    "!{channel-name}-!{channel-id}-!{yyyy}-!{MM}-!{dd}-!{HH}-!{mm}!{extension}"
)
# By CompressionType.
EXTENSIONS = {"NONE": "", "GZIP": ".gz", "ZSTD": ".zst"}
# S3's limit is 1,024; the suffix takes up to 38.
_EXPANDED_CHARS = 986
_VARIABLE = re.compile(r"!\{([^{}]*)\}")
_EXTENSION = "extension"
_LITERAL_EXTENSION = re.compile(r"extension:\.[a-z.]+")
_LITERALS = re.compile(r"[A-Za-z0-9!\-_'.*()/=]*")
_NAMES = ("channel-name", "channel-id", "stream-name")
_TIMES = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M"}


def find_fault(template: str, compression: str, names: Mapping[str, str]) -> str:
    """Return what is wrong with a template, as a sentence; "" for nothing. For `names` see `expand`."""
    if template.startswith("/"):
        return "OutputKeyTemplate must not start with a forward slash."
    if "//" in template:
        return "OutputKeyTemplate must not contain consecutive slashes."
    variables = _VARIABLE.findall(template)
    rest = _VARIABLE.sub("", template)
    if "{" in rest or "}" in rest:
        return "OutputKeyTemplate contains a variable placeholder that is not closed."
    if not _LITERALS.fullmatch(rest):
        return "OutputKeyTemplate contains characters that are not allowed."
    for name in variables:
        if name not in _NAMES and name not in _TIMES and not _is_extension(name):
            return f"OutputKeyTemplate contains the unsupported variable !{{{name}}}."
    extensions = [name for name in variables if _is_extension(name)]
    if len(extensions) > 1:
        return "OutputKeyTemplate can contain at most one extension placeholder."
    if extensions and not template.endswith(f"!{{{extensions[0]}}}"):
        return "The extension placeholder must be at the end of OutputKeyTemplate."
    if compression != "NONE" and not extensions:
        return (
            "OutputKeyTemplate must contain an extension placeholder when compression is enabled."
        )
    segments = _VARIABLE.sub("v", template).split("/")
    if ".." in rest or "." in segments:
        return "OutputKeyTemplate must not contain path traversal."
    expanded = expand(template, compression, names, 0, "")
    if len(expanded) > _EXPANDED_CHARS:
        return f"OutputKeyTemplate is longer than {_EXPANDED_CHARS} characters after its variables are expanded."
    return ""


def expand(
    template: str, compression: str, names: Mapping[str, str], at_ms: int, unique: str
) -> str:
    """Return an object's key: the template with its variables, `unique`, and the extension.

    `names` has the values of channel-name, channel-id and stream-name.
    """
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    extension = ""

    def value(match: re.Match[str]) -> str:
        nonlocal extension
        name = match.group(1)
        if _is_extension(name):
            extension = name.partition(":")[2] or EXTENSIONS[compression]
            return ""
        return names[name] if name in names else at.strftime(_TIMES[name])

    key = _VARIABLE.sub(value, template)
    return f"{key}-{unique}{extension}" if unique else key + extension


def _is_extension(name: str) -> bool:
    return name == _EXTENSION or _LITERAL_EXTENSION.fullmatch(name) is not None
