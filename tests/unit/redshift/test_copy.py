"""COPY: its options, the rows of files, the values of columns, and what STL_LOAD_ERRORS says of the rest."""

from __future__ import annotations

import re

import pytest

from headrace.core.ports.warehouses import WarehouseError
from headrace.services.redshift.copy_command import Copy, parse_copy
from headrace.services.redshift.copy_rows import Problem, parse_paths, rows_of
from headrace.services.redshift.copy_values import Target, convert, strptime_format

FROM = "copy t from 's3://b/k' iam_role 'arn'"


def test_a_statement_is_read_whole():
    copy = parse_copy(
        "copy s.t (a, \"B\") from 's3://b/k' credentials 'aws_iam_role=arn:x' manifest json as 'auto ignorecase' gzip"
        " timeformat as 'epochmillisecs' dateformat 'auto' region 'us-east-1' maxerror 5 truncatecolumns"
        " acceptinvchars as '^' statupdate off;"
    )
    assert (copy.schema, copy.table, copy.columns, copy.role) == ("s", "t", ["a", "b"], "arn:x")
    assert (copy.format, copy.json, copy.time_format, copy.max_error) == (
        "json",
        "auto ignorecase",
        "epochmillisecs",
        5,
    )
    assert (copy.accept_invalid, copy.flags) == ("^", {"manifest", "gzip", "truncate_columns"})


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ("csv csv", "IncorrectCopyOptions", "redundant"),
        ("gzip bzip2", "IncorrectCopyOptions", "not compatible"),
        ("csv removequotes", "IncorrectCopyOptions", "not compatible"),
        ("delimiter 'ab'", "IncorrectCopyOptions", "single character"),
        ("parquet", "SyntaxError", "PARQUET"),
        ("lzop", "SyntaxError", "LZOP"),
        ("bogus", "SyntaxError", 'at or near "bogus"'),
        ("maxerror x", "SyntaxError", "syntax error"),
    ],
)
def test_options_that_redshift_or_headrace_refuses(options: str, kind: str, words: str):
    with pytest.raises(WarehouseError, match=re.escape(words)) as refused:
        parse_copy(f"{FROM} {options}")
    assert refused.value.kind == kind


def read(text: str, options: str, columns: list[str], paths: bytes = b"") -> list[object]:
    """Return the fields of rows, and of those that are none the code."""
    copy = parse_copy(f"{FROM} {options}")
    rows = rows_of(text, copy, columns, parse_paths(paths) if paths else [])
    return [row.problem.code if row.problem else [f and str(f) for f in row.fields] for row in rows]


def test_json_documents_need_nothing_between_them():
    text = '{"a":1.50,"b":"x"}{"b":null}\n[1]\n{"A":true,"b":{"c":[1e3]}}'
    found = read(text, "json 'auto'", ["a", "b"])
    assert found[:3] == [["1.50", "x"], [None, None], [None, None]]
    assert read('{"A":1}', "json 'auto ignorecase'", ["a"]) == [["1"]]
    assert read('{"A":1}', "json 'auto'", ["a"]) == [[None]]


def test_a_line_that_is_no_json_does_not_spoil_the_next():
    assert read('{bad\n{"a":1}\n"text"\n{"a":', "json 'auto'", ["a"]) == [1216, ["1"], 1216, 1216]


def test_jsonpaths_go_into_documents():
    paths = b"""{"jsonpaths": ["$.a.b[1]", "$['c d']"]}"""
    assert read('{"a":{"b":[1,2]},"c d":"x"}', "json 's3://b/p'", ["x", "y"], paths) == [["2", "x"]]
    with pytest.raises(WarehouseError, match="JSONPath"):
        parse_paths(b'{"jsonpaths": ["a"]}')


def test_csv_keeps_delimiters_quotes_and_lines_in_quotes():
    text = 'h,h\n"a,""b""\nc",2\nx\n1,2,3\n'
    assert read(text, "csv ignoreheader 1", ["a", "b"]) == [['a,"b"\nc', "2"], 1214, 1202]
    assert read("x\n", "csv fillrecord", ["a", "b"]) == [["x", None]]


def test_delimited_lines():
    assert read("a|\\N\r\nb|c|d\n\n", "ignoreblanklines", ["a", "b"]) == [["a", None], 1202]
    assert read("a\\|b|c\n", "escape", ["a", "b"]) == [["a|b", "c"]]
    assert read("'a\tb'\tc\n", "delimiter '\\t' removequotes", ["a", "b"]) == [["a\tb", "c"]]


INT = Target("n", "int4")
STAMP = Target("at", "timestamp")


@pytest.mark.parametrize(
    ("target", "text", "options", "wanted"),
    [
        (INT, " 7 ", "", "7"),
        (INT, "", "", None),
        (Target("d", "numeric", precision=6, scale=2), "12.345", "", "12.34"),
        (Target("d", "numeric", precision=6, scale=2), "12.345", "roundec", "12.35"),
        (Target("b", "bool"), "Yes", "", "t"),
        (STAMP, "2026-01-02 03:04:05.25", "", "2026-01-02 03:04:05.250000"),
        (STAMP, "2026-01-02T03:04:05+01:00", "timeformat 'auto'", "2026-01-02 02:04:05"),
        (STAMP, "1767322800", "timeformat 'epochsecs'", "2026-01-02 03:00:00"),
        (STAMP, "1767322800500", "timeformat 'epochmillisecs'", "2026-01-02 03:00:00.500000"),
        (STAMP, "02.01.2026 03:04", "timeformat 'DD.MM.YYYY HH:MI'", "2026-01-02 03:04:00"),
        (STAMP, "soon", "acceptanydate", None),
        (Target("d", "date"), "01/02/2026", "dateformat 'auto'", "2026-01-02"),
        (Target("c", "varchar", 3), "äb", "", "äb"),
        (Target("c", "varchar", 3), "abäc", "truncatecolumns", "ab"),
        (Target("c", "varchar", 9), "  ", "blanksasnull", None),
        (Target("c", "varchar", 9), "", "emptyasnull", None),
        (Target("c", "varchar", 9), "", "", ""),
        (
            Target("c", "varchar", 9),
            b"a\xff".decode("utf-8", "surrogateescape"),
            "acceptinvchars",
            "a?",
        ),
        (Target("c", "char", 2), "x", "", "x"),
    ],
)
def test_fields_are_converted_to_the_types_of_columns(
    target: Target, text: str, options: str, wanted: str | None
):
    assert convert(text, target, parse_copy(f"{FROM} {options}")) == wanted


# The words were observed by others in STL_LOAD_ERRORS.
@pytest.mark.parametrize(
    ("target", "text", "code", "reason"),
    [
        (INT, "1.5", 1207, "Invalid digit, Value '.', Pos 1, Type: Integer"),
        (INT, "9999999999", 1222, "Overflow"),
        (Target("s", "int2"), "1" * 5000, 1222, "Overflow"),
        (Target("c", "varchar", 3), "äbc", 1204, "String length exceeds DDL length"),
        (
            STAMP,
            "2026-01-02T03:04:05Z",
            1206,
            "Invalid timestamp format or value [YYYY-MM-DD HH24:MI:SS]",
        ),
        (Target("d", "date"), "1.1.26", 1205, "Invalid Date Format - length must be 10 or more"),
        (Target("d", "numeric", precision=4, scale=2), "100", 1209, "Overflow for NUMERIC(4,2)"),
        (Target("f", "float8"), "x", 1208, "Invalid digit"),
        (Target("b", "bool"), "maybe", 1210, "Unknown boolean format"),
        (Target("c", "varchar", 9, not_null=True), None, 1213, "Missing data for not-null field"),
        (Target("c", "varchar", 9), "a\x00", 1220, "invalid or unsupported UTF-8"),
    ],
)
def test_fields_that_are_not_loaded(target: Target, text: str | None, code: int, reason: str):
    with pytest.raises(Problem) as problem:
        convert(text, target, Copy("t"))
    assert problem.value.code == code
    assert reason in problem.value.reason


# Source: docs.aws.amazon.com/redshift/latest/dg/multi-byte-character-load-errors.html: the first two are its examples.
@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("bpchar", b"\xe0\xa1\x87", ("Multibyte character not supported for CHAR (Hint: Try using VARCHAR). "
         "Invalid char: e0 a1 87")),
        ("varchar", b"\xa4", ("String contains invalid or unsupported UTF-8 codepoints. Bad UTF-8 hex sequence: a4 "
         "(error 3)")),
        ("varchar", b"a\xf8", "hex sequence: f8 (error 1)"),
        ("varchar", b"a\xe2\x82", "hex sequence: e2 82 (error 2)"),
        ("varchar", b"\xe2\x28\xa1", "hex sequence: e2 (error 4)"),
        ("varchar", b"\xed\xa0\x80", "hex sequence: ed (error 5)"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_text_of_a_column(kind: str, data: bytes, said: str):
    with pytest.raises(Problem) as problem:
        convert(data.decode("utf-8", "surrogateescape"), Target("c", kind, 20), Copy("t"))
    assert problem.value.code == 1220
    assert problem.value.reason.endswith(said)
    assert len(problem.value.reason) <= 100


def test_a_surrogate_of_a_json_document_is_no_character():
    with pytest.raises(Problem, match=r"ed a0 80 \(error 5\)"):
        convert("\ud800", Target("c", "varchar", 20), Copy("t"))


def test_time_formats_of_redshift():
    assert strptime_format("YYYY-MM-DDTHH24:MI:SS.US") == "%Y-%m-%dT%H:%M:%S.%f"
    assert strptime_format("DD Mon YYYY HH12:MI:SS AM") == "%d %b %Y %I:%M:%S %p"
