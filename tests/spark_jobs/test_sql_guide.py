"""Each example of AWS's developer guide that the page of statements says to run has the fold's rows in the compiled job."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from headrace.sql.analysis import Analysis
from headrace.sql.inference import Nothing
from headrace.sql.parsing import parse
from headrace.sql.plan import KINESIS_ANALYTICS, Script
from headrace.sql.types import Location, SqlError
from scripts import sql_page
from tests.spark_jobs.sql_job import Records, differences, fold_of, interpret, run_job
from tests.spark_jobs.sql_job import sql_settings as sql_settings  # a fixture

COMPANIES = ["AMZN,Amazon", "TBV,", "INTC,Intel"]
TICKERS = ("AMZN", "TBV", "INTC")
SECTORS = ("TECHNOLOGY", "http://x://y", "ENERGY")


def tick(number: int) -> tuple[str, str, Any]:
    """Return a record of the guide's stream of ticks; of some the price less the change is 0, others have no price."""
    price = (number * 7) % 4 - 1.5
    value = {
        "ticker_symbol": TICKERS[number % 3],
        "sector": SECTORS[number % 3],
        "change": price if number % 13 == 0 else number % 2 - 2.0,
        "price": None if number % 17 == 0 else price,
        "event_time": f"2026-01-01 00:{number // 60:02}:{number % 60:02}",
        "log": f"2026-02-{number % 40:02} 0{number % 10}:3{number % 10}",
        "RecordType": "Trade" if number % 4 else "Order",
        "Tid": number,
        "Tticker": TICKERS[number % 2],
    }
    return "ticks", value["ticker_symbol"], value


def records_of(number: int) -> list[tuple[str, str, Any]]:
    """Return what comes at one moment: records arrive a second apart, and ROWTIME is when they arrive."""
    order = {"orderId": number, "ticker": TICKERS[number % 3], "amount": number}
    trade = {
        "tradeId": 1000 + number,
        "orderId": number - 10,
        "ticker": TICKERS[number % 3],
        "amount": 2 * number,
    }
    others = (
        [("orders", str(number), order), ("trades", str(number), trade)] if number % 5 == 0 else []
    )
    # As an imported application has it: plain, rows within a record, and a path to its value.
    price = number / 2
    forms = (
        {"price": price},
        {"rows": [{"price": price}, {"price": -price}]},
        {"price": {"last": price}},
    )
    return [*others, tick(number), ("in", str(number), forms[number % 3])]


# Four micro-batches of more than a minute each, and one that closes their windows.
BATCHES = [
    [record for number in range(first, first + 28) for record in records_of(number)]
    for first in range(0, 140, 28)
]


class _Streams(Nothing):
    def records(self, stream: str, location: Location) -> Sequence[bytes]:
        return [json.dumps(value).encode() for name, _, value in BATCHES[0] if name == stream]


def script_of(setup: str, example: dict[str, Any]) -> Script | None:
    """Return an example's queries, each with a stream of its own; None if the compiler refuses it."""
    analysis = Analysis(KINESIS_ANALYTICS, _Streams())
    try:
        if "application" in example:
            setup, text = "", sql_page.import_special(example["application"])
        else:
            text = example["text"]
        if text.startswith("SELECT"):
            text = f"CREATE STREAM shown AS {text}"
        for statement in parse(setup + text, analysis.words):
            analysis.take(statement)
        if not analysis.queries:
            for statement in parse(
                "CREATE STREAM shown AS SELECT STREAM * FROM x;", analysis.words
            ):
                analysis.take(statement)
    except SqlError:
        return None
    return analysis.script()


def run_both(script: Script, folder: Path) -> Any:
    """Return where the job and the fold differ, and how many rows there are."""
    (folder / "objects").mkdir(parents=True)
    (folder / "objects" / "TickerReference.csv").write_text("\n".join(COMPANIES) + "\n")
    lines: Records = [("s3://bucket/TickerReference.csv", "", line) for line in COMPANIES]
    fold = fold_of(script, [[*lines, *BATCHES[0]], *BATCHES[1:]])
    read = run_job(script, BATCHES, folder)
    return differences(script, fold, read), sum(map(len, fold.results.values()))


@pytest.mark.slow
def test_each_example_that_runs_has_the_same_rows_without_spark_and_with_it(
    spark: SparkSession, sql_settings: None, tmp_path: Path
) -> None:
    interpret(spark)
    sections = yaml.safe_load(sql_page.STATEMENTS.read_text(encoding="utf-8"))
    guide = next(one for one in sections if one.get("dialect") == KINESIS_ANALYTICS)
    wrong: dict[str, Any] = {}
    ran = 0
    for number, example in enumerate(guide["statements"]):
        script = script_of(guide["setup"], example)
        if script is None:
            continue
        found, rows = run_both(script, tmp_path / str(number))
        ran += 1
        if found or not rows:
            wrong[example["what"]] = found or "no rows"
    assert not wrong
    assert f"{ran} of {len(guide['statements'])} run." in sql_page.PAGE.read_text(encoding="utf-8")
