"""Kinesis Agent's `dataProcessingOptions`: what becomes of each record before it is sent.

Documented: https://docs.aws.amazon.com/streams/latest/dev/writing-with-agents.html#sim-writes; formats and fields
are those of the Java agent (observed in its source). A record that a log format does not match is left out, as there,
and counted.

Java's regular expressions, with groups, for records that anybody may have written.

RE2 runs in linear time, so that no line can stop an agent; a pattern that only backtracking engines know is refused.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, cast

import re2  # pyright: ignore[reportMissingTypeStubs]

Convert = Callable[[bytes], "bytes | None"]
_LOG = logging.getLogger("headrace.agent")

_MONTH = (
    r"\b(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?"
    r"|July?|Aug(?:ust)?|Sep(?:tember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b"
)
_DAY = r"(?:Mon(?:day)?|Tue(?:sday)?|Wed(?:nesday)?|Thu(?:rsday)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?)"
_DATE, _INT, _USER = r"(?:0[1-9]|[12][0-9]|3[01]|[1-9])", r"[+-]?[0-9]+", r"[a-zA-Z0-9._-]+"
_TIME = r"(?:2[0123]|[01]?[0-9]):[0-5][0-9]:(?:(?:[0-5]?[0-9]|60)(?:[:.,][0-9]+)?)"
_HOST = r"(?:[\w\-]+(?:\.[\w\-]+)*(?:\.?|\b)|[\d.]+)"
_COMMON = (
    rf"^({_HOST}) ({_USER}) ({_USER}) \[({_DATE}/{_MONTH}/[1-9]\d*:{_TIME}\s{_INT})\] "
    rf'"([^"]+)" ({_INT}|-) ({_INT}|-)'
)
_COMMON_FIELDS = ("host", "ident", "authuser", "datetime", "request", "response", "bytes")
_FORMATS: dict[str, tuple[str, tuple[str, ...]]] = {
    "COMMONAPACHELOG": (_COMMON + ".*", _COMMON_FIELDS),
    "COMBINEDAPACHELOG": (
        _COMMON + r' "([^"]+)" "([^"]+)".*',
        (*_COMMON_FIELDS, "referer", "agent"),
    ),
    "APACHEERRORLOG": (
        (
            rf"^\[({_DAY}\s+{_MONTH}\s+{_DATE}\s+{_TIME}\s+[1-9]\d*)\] \[(?:(\w+):)?(\w+)\] "
            rf"\[pid ([0-9]+)(?::tid ([0-9]+))?\] \[client ({_HOST}(?::[1-9][0-9]*)?)\] (.*)"
        ),
        ("timestamp", "module", "severity", "processid", "threadid", "client", "message"),
    ),
    "SYSLOG": (
        (
            rf"^({_MONTH}\s+{_DATE}\s+{_TIME}) (?:<[0-9]+.[0-9]+> )?({_USER}) "
            r"([\w._/%-]+)(?:\[([1-9][0-9]*)\])?: (.*)"
        ),
        ("timestamp", "hostname", "program", "processid", "message"),
    ),
}
# Its time is assumed; the rest is SYSLOG's (observed).
_RFC3339 = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)"
_FORMATS["RFC3339SYSLOG"] = (
    _FORMATS["SYSLOG"][0].replace(rf"{_MONTH}\s+{_DATE}\s+{_TIME}", _RFC3339),
    _FORMATS["SYSLOG"][1],
)
_KEYS = {
    "SINGLELINE": frozenset[str](),
    "ADDBRACKETS": frozenset[str](),
    "CSVTOJSON": frozenset({"customFieldNames", "delimiter", "jsonFormat"}),
    "LOGTOJSON": frozenset({"logFormat", "matchPattern", "customFieldNames", "jsonFormat"}),
    "ADDMETADATA": frozenset({"metadata", "metadataFields", "jsonFormat"}),
}
_NOT_BUILT = ("ADDEC2METADATA", "GZIP", "PLUGGABLE")


class ConverterError(Exception):
    """An option cannot be used. The message is one sentence; `key` is where it lies."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def converter_of(option: Any) -> Convert:
    """Return what an entry of `dataProcessingOptions` does with a record; None leaves the record out.

    Raises ConverterError.
    """
    if not isinstance(option, dict):
        raise ConverterError("dataProcessingOptions", "an option is an object")
    values = cast("dict[str, Any]", option)
    name = values.get("optionName")
    if name in _NOT_BUILT:
        raise ConverterError("optionName", f"the option {name} is not built")
    if not isinstance(name, str) or name not in _KEYS:
        raise ConverterError("optionName", f"there is no option {name!r}")
    for key in values:
        if key != "optionName" and key not in _KEYS[name]:
            raise ConverterError(key, f"the option {name} has no key {key!r}")
    if name == "SINGLELINE":
        return _single_line
    if name == "ADDBRACKETS":
        return lambda record: b"{" + record.removesuffix(b"\n") + b"}\n"
    dump = _dump_of(values)
    if name == "CSVTOJSON":
        return _csv(values, dump)
    if name == "LOGTOJSON":
        return _log(values, dump)
    fields = values.get("metadataFields", values.get("metadata"))
    return lambda record: dump({"metadata": fields, "data": _text(record)})


def _text(record: bytes) -> str:
    return record.removesuffix(b"\n").decode(errors="replace")


def _single_line(record: bytes) -> bytes:
    # Java's trim takes everything up to the space away.
    lines = record.decode(errors="replace").split("\n")
    low = "".join(map(chr, range(33)))
    return ("".join(line.strip(low) for line in lines) + "\n").encode()


def _dump_of(values: dict[str, Any]) -> Callable[[Any], bytes]:
    style = values.get("jsonFormat", "COMPACT")
    if style not in ("COMPACT", "PRETTYPRINT"):
        raise ConverterError("jsonFormat", f"jsonFormat is COMPACT or PRETTYPRINT, not {style!r}")
    if style == "PRETTYPRINT":
        # Jackson's printer puts a space before the colon too.
        return lambda value: (
            json.dumps(value, ensure_ascii=False, indent=2, separators=(",", " : ")) + "\n"
        ).encode()
    return lambda value: (
        json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
    ).encode()


def _names(values: dict[str, Any]) -> list[str] | None:
    names = values.get("customFieldNames")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(n, str) for n in cast("list[Any]", names)):
        raise ConverterError("customFieldNames", "customFieldNames is a list of texts")
    return cast("list[str]", names)


def _csv(values: dict[str, Any], dump: Callable[[Any], bytes]) -> Convert:
    names = _names(values)
    if not names:
        raise ConverterError("optionName", "CSVTOJSON needs customFieldNames")
    text = str(values.get("delimiter", ","))
    # A delimiter is a regular expression, as for Java's split; one that means itself needs no engine.
    delimiter = text.replace("\\t", "\t").replace("\\|", "|")
    if delimiter == text and len(text) > 1:
        try:
            pattern: JavaPattern | None = compile_java(text)
        except ValueError as error:
            raise ConverterError(
                "delimiter", f"delimiter is not a regular expression: {error}"
            ) from error
    else:
        pattern = None

    def convert(record: bytes) -> bytes:
        line = _text(record)
        columns: list[str] = pattern.split(line) if pattern else line.split(delimiter)
        # Java's split drops empty texts at the end.
        while columns and not columns[-1]:
            columns.pop()
        padded: Sequence[str | None] = [*columns, *[None] * len(names)]
        return dump(dict(zip(names, padded, strict=False)))

    return convert


def _log(values: dict[str, Any], dump: Callable[[Any], bytes]) -> Convert:
    style = values.get("logFormat")
    if style not in _FORMATS:
        raise ConverterError(
            "logFormat" if "logFormat" in values else "optionName",
            f"logFormat is one of {', '.join(_FORMATS)}, not {style!r}",
        )
    text, names = _FORMATS[str(style)]
    custom = _names(values)
    if "matchPattern" in values:
        if custom is None:
            raise ConverterError("matchPattern", "matchPattern needs customFieldNames")
        text = str(values["matchPattern"])
    elif custom is not None and len(custom) != len(names):
        raise ConverterError("customFieldNames", f"{style} has {len(names)} fields")
    try:
        pattern = compile_java(text)
    except ValueError as error:
        raise ConverterError("matchPattern", f"matchPattern cannot be used: {error}") from error
    fields = custom or list(names)
    if pattern.groups != len(fields):
        raise ConverterError(
            "matchPattern", f"matchPattern has {pattern.groups} groups for {len(fields)} fields"
        )
    return _log_converter(
        pattern, fields, dump, dash_is_null=style not in ("SYSLOG", "RFC3339SYSLOG")
    )


def _log_converter(
    pattern: JavaPattern, fields: list[str], dump: Callable[[Any], bytes], *, dash_is_null: bool
) -> Convert:
    left_out = 0

    def convert(record: bytes) -> bytes | None:
        nonlocal left_out
        groups = pattern.fields(_text(record))
        if groups is None:
            left_out += 1
            if left_out & (left_out - 1) == 0:
                _LOG.warning("%d records do not match the log format, and are left out", left_out)
            return None
        shown = [None if dash_is_null and value == "-" else value for value in groups]
        return dump(dict(zip(fields, shown, strict=True)))

    return convert


# Its types are incomplete.
_RE2: Any = re2


class JavaPattern:
    """A compiled pattern. Thread-safe."""

    def __init__(self, text: str) -> None:
        """Compile it. Raises ValueError."""
        options = _RE2.Options()
        options.log_errors = False
        try:
            self._pattern: Any = _RE2.compile(text, options)
        except _RE2.error as error:
            raise ValueError(str(error)) from error
        self.groups = int(self._pattern.groups)

    def matches_start(self, line: bytes) -> bool:
        """Whether it matches at the start of a line, as Java's `lookingAt`."""
        return self._pattern.match(line.decode(errors="replace")) is not None

    def matches_whole(self, line: bytes) -> bool:
        """Whether it matches a whole line, without its newline."""
        return self._pattern.fullmatch(line.decode(errors="replace").rstrip("\n")) is not None

    def matches(self, text: str) -> bool:
        """Whether it matches a whole text."""
        return self._pattern.fullmatch(text) is not None

    def is_found(self, text: str) -> bool:
        """Whether it matches anywhere, as Java's `find`."""
        return self._pattern.search(text) is not None

    def groups_found(self, text: str) -> list[str | None] | None:
        """Return the groups of the first match anywhere; None without one."""
        match = self._pattern.search(text)
        return None if match is None else [match.group(n + 1) for n in range(self.groups)]

    def replace(self, text: str, replacement: Callable[[list[str | None]], str]) -> str:
        """Replace each match by what `replacement` makes of its groups, the whole match first."""
        parts, begin = list[str](), 0
        for match in self._pattern.finditer(text):
            start, end = match.span()
            groups = [match.group(n) for n in range(self.groups + 1)]
            parts += [text[begin:start], replacement(groups)]
            begin = end
        return "".join([*parts, text[begin:]])

    def fields(self, text: str) -> list[str | None] | None:
        """Return the groups of a match of the whole text; None without one."""
        match = self._pattern.fullmatch(text)
        return None if match is None else [match.group(n + 1) for n in range(self.groups)]

    def split(self, text: str) -> list[str]:
        """Return the parts between matches, as Java's `split` before it drops empty ones at the end."""
        parts, begin = list[str](), 0
        for match in self._pattern.finditer(text):
            start, end = match.span()
            if start < end:
                parts.append(text[begin:start])
                begin = end
        return [*parts, text[begin:]]


def compile_java(text: str) -> JavaPattern:
    """Compile a pattern. Raises ValueError: it is none, or RE2 does not know it (look-around, back-references)."""
    return JavaPattern(text)
