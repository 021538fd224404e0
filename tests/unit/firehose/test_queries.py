"""JQ queries: as Debian's jq 1.6 answers them, and bounded in time."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.aws.calls.errors import AwsError
from headrace.services.firehose import queries
from headrace.services.firehose.queries import Queries

pytest.importorskip("jq", reason="JQ 1.6 has no wheel for this Python")
EXPRESSIONS = (
    ".a",
    ".a|tostring",
    ".b.c",
    ".a + 1",
    ".a * 1000",
    ".a / 3",
    '(.a|tostring) + "-" + (.s|ascii_downcase)',
    'if .a > 10 then "big" else "small" end',
    ".s|length",
    ".a|floor",
    '.t|strftime("%Y/%m/%d/%H")',
    '.s|test("a")',
    '.missing // "none"',
    '[.s, .a]|join("-")',
)


def real_jq() -> str:
    path = shutil.which("jq")
    if path is None:
        pytest.skip("no jq here")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    if not version.stdout.startswith("jq-1.6"):
        pytest.skip(f"{version.stdout.strip()} is not 1.6")
    return path


@pytest.fixture(scope="module")
def runner() -> Queries:
    return Queries()


NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([1.0, 1e3, 1e17, 1e-7, 0.1, -0.0, 12345678901234567890]),
)
RECORDS = st.fixed_dictionaries(
    {
        "a": NUMBERS,
        "b": st.fixed_dictionaries({"c": st.one_of(st.text(max_size=8), st.none(), st.booleans())}),
        "s": st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
        "t": st.integers(0, 4_000_000_000),
    }
)


@settings(max_examples=12, deadline=None)
@given(records=st.lists(RECORDS, min_size=20, max_size=40))
def test_the_real_jq_1_6_gives_the_same_keys(runner: Queries, records: list[dict[str, Any]]):
    """AWS's engine is JQ 1.6: a number that is written otherwise is another prefix."""
    datas = [json.dumps(record).encode() for record in records]
    members = [f"k{number}: (try ({text}) catch null)" for number, text in enumerate(EXPRESSIONS)]
    query = "{" + ", ".join(members) + "}"
    done = subprocess.run(
        [real_jq(), "-c", query], input=b"\n".join(datas), capture_output=True, check=True
    )
    for found, line in zip(runner.run(query, datas), done.stdout.splitlines(), strict=True):
        # A string's text; for the rest what jq itself has written, cut out of its line.
        expected: dict[str, str | None] = {}
        decoded = json.loads(line, parse_int=_Raw, parse_float=_Raw)
        for name, value in decoded.items():
            if value is None or value == "":
                expected[name] = None
            elif isinstance(value, bool):
                expected[name] = "true" if value else "false"
            else:
                expected[name] = str(value)
        assert found == expected


class _Raw(str):
    """A number as it is written."""


@pytest.mark.parametrize(
    "query", ["{a:", "", "{a: pick(.a)}", "{a: (if .a then 1 end)}", "{a: (.b|ltrimstr)}"]
)
def test_what_jq_1_6_does_not_know_is_refused(runner: Queries, query: str):
    with pytest.raises(AwsError, match=r"not a valid JQ 1\.6 query"):
        runner.check(query or "{")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("empty", "the query gives nothing"),
        ("[1]", "the query gives no object"),
        ('error("no")', "no"),
        ("halt", "the query stops at this record"),
    ],
)
def test_a_query_that_gives_no_keys(runner: Queries, query: str, message: str):
    assert runner.run(query, [b"{}", b"{}"]) == [message, message]


def test_an_endless_record_fails_alone(runner: Queries):
    # With the whole budget: after each end another process compiles the query, which takes a slow machine 50 ms.
    query = "def f: f; {a: (if .n == 2 then f else .n end)}"
    found = runner.run(query, [b'{"n":%d}' % number for number in range(4)])
    assert found == [{"a": "0"}, {"a": "1"}, "the query took too much time or memory", {"a": "3"}]


def test_an_endless_query_keeps_nobody_waiting(runner: Queries, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(queries, "_BASE_S", 0.02)
    started_s = time.monotonic()
    found = runner.run("def f: f; {a: f}", [b"{}"] * 20)
    assert set(map(str, found)) == {"the query took too much time or memory"}
    assert time.monotonic() - started_s < 60


def test_the_environment_is_not_the_querys(runner: Queries, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET_OF_MINE", "x")
    (found,) = runner.run('{a: ($ENV.SECRET_OF_MINE // "none")}', [b"{}"])
    assert found == {"a": "none"}
