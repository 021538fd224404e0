"""Why a text is no JSON, as AWS Lambda says it."""

from __future__ import annotations

import pytest

from headrace.aws.protocols.jackson import explain

VALUES = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
NAME = "was expecting double-quote to start field name"
CASES = [
    (b"hello", f"Unrecognized token 'hello': was expecting {VALUES}", 6),
    (b"hello you", f"Unrecognized token 'hello': was expecting {VALUES}", 7),
    (b'{"a": tru}', f"Unrecognized token 'tru': was expecting {VALUES}", 11),
    (b"n\x87r", "Invalid UTF-8 start byte 0x87", 3),
    (b'"\xff"', "Invalid UTF-8 start byte 0xff", 3),
    (b'"\xc3x"', "Invalid UTF-8 middle byte 0x78", 4),
    (b"\x99", f"Unexpected character ((CTRL-CHAR, code 153)): expected a valid value {VALUES}", 2),
    (b"'a'", f"Unexpected character (''' (code 39)): expected a valid value {VALUES}", 2),
    (b'{"a":}', "Unexpected character ('}' (code 125)): expected a value", 7),
    (b"[1,]", "Unexpected character (']' (code 93)): expected a value", 5),
    (b'{"a":1,}', f"Unexpected character ('}}' (code 125)): {NAME}", 9),
    (b"{a:1}", f"Unexpected character ('a' (code 97)): {NAME}", 3),
    (
        b'{"a" 1}',
        (
            "Unexpected character ('1' (code 49)): "
            "was expecting a colon to separate field name and value"
        ),
        7,
    ),
    (
        b'{"a":[1],"b":2 3}',
        "Unexpected character ('3' (code 51)): was expecting comma to separate Object entries",
        17,
    ),
    (
        b'["{" 2]',
        "Unexpected character ('2' (code 50)): was expecting comma to separate Array entries",
        7,
    ),
    (
        b"---",
        (
            "Unexpected character ('-' (code 45)) in numeric value: "
            "expected digit (0-9) to follow minus sign, for valid numeric value"
        ),
        3,
    ),
    (b'"a', "Unexpected end-of-input: was expecting closing quote for a string value", 3),
    (b'"\\x"', "Unrecognized character escape 'x' (code 120)", 4),
    (
        b'"\n"',
        (
            "Illegal unquoted character ((CTRL-CHAR, code 10)): "
            "has to be escaped using backslash to be included in string value"
        ),
        3,
    ),
    (b"  ", "No content to map due to end-of-input", 3),
]


@pytest.mark.parametrize(("body", "why", "column"), CASES)
def test_a_mistake_has_its_sentence_and_place(body: bytes, why: str, column: int):
    source = f'(byte[])"{body.decode(errors="replace")}"'
    assert explain(body, "") == f"{why}\n at [Source: {source}; line: 1, column: {column}]"


def test_what_is_left_open_is_said_with_its_beginning():
    why = explain(b'[{"a":\n1', "")
    assert why.startswith("Unexpected end-of-input: expected close marker for Object (start marker")
    assert why.endswith("line: 2, column: 2]")
    assert "line: 1, column: 2])" in why


def test_json_that_is_refused_for_another_reason_says_it():
    assert explain(b"[]", "an object was expected").startswith("an object was expected\n")


def test_of_a_long_text_the_beginning_is_shown():
    why = explain(b"x" * 600, "")
    assert why.startswith(f"Unrecognized token '{'x' * 256}...': was expecting")
    assert why.endswith("[truncated 100 bytes]; line: 1, column: 257]")
