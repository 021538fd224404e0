"""The oracle of convergence: it finds three seeded bugs, and passes what is right, our own functions among them."""

from __future__ import annotations

import base64
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.testing import HandlerPipeline, NotConverged, assert_converges, hostile
from headrace.testing.convergence import Delivery, NothingProcessed, in_order, run
from headrace.testing.function_variables import Modules
from headrace.testing.handlers import handler_of
from headrace.testing.hostile import Event

LAMBDAS = Path(__file__).parents[3] / "lambdas"
ORDERS = hostile.from_records(
    [{"id": n, "customer": f"c{n % 3}", "amount": 10 + n} for n in range(12)], key="customer"
)


# --- seeded bug 1: a handler that forgets idempotence ------------------------------------------------


def totals(remembers: bool) -> Callable[[], HandlerPipeline]:
    def make() -> HandlerPipeline:
        table: dict[str, int] = defaultdict(int)
        seen: set[int] = set()

        def handler(event: dict[str, Any], context: Any) -> None:
            for record in event["Records"]:
                order = json.loads(base64.b64decode(record["kinesis"]["data"]))
                if remembers and order["id"] in seen:
                    continue
                seen.add(order["id"])
                table[order["customer"]] += order["amount"]

        return HandlerPipeline(handler, lambda: dict(table))

    return make


def test_a_handler_that_forgets_idempotence_is_found() -> None:
    with pytest.raises(NotConverged) as found:
        assert_converges(totals(remembers=False), ORDERS, seed=1)
    message = str(found.value)
    # The smallest: one order, twice, and both states beside each other.
    assert message.count('"customer"') <= 2
    assert "- {'c0': 10}" in message
    assert "+ {'c0': 20}" in message


def test_one_that_remembers_converges() -> None:
    assert_converges(totals(remembers=True), ORDERS, seed=1)


# --- seeded bug 2: a job without deduplication ------------------------------------------------------


class Job:
    """A batch job over all that a stream has left in a lake: rewrites its table whole."""

    def __init__(self, deduplicates: bool) -> None:
        self._deduplicates = deduplicates
        self._lake: list[dict[str, Any]] = []

    def process(self, batch: Sequence[Event]) -> None:
        self._lake += [json.loads(event.data) for event in batch]

    def restart(self) -> None:
        """A job has nothing in memory."""

    def state(self) -> Any:
        rows = (
            list({row["id"]: row for row in self._lake}.values())
            if self._deduplicates
            else self._lake
        )
        return Counter(row["customer"] for row in rows)


def test_a_job_without_deduplication_is_found() -> None:
    with pytest.raises(NotConverged, match=r"delivered again|batch 2") as found:
        assert_converges(lambda: Job(deduplicates=False), ORDERS, order="none", seed=1)
    assert "+ Counter({'c0': 2})" in str(found.value)
    assert_converges(lambda: Job(deduplicates=True), ORDERS, order="none", seed=1)


# --- seeded bug 3: a partial-failure answer that is off by one ----------------------------------------


def forwarder(off_by: int) -> Callable[[], HandlerPipeline]:
    def make() -> HandlerPipeline:
        written: set[int] = set()
        refused_once: set[int] = set()

        def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
            records = event["Records"]
            for place, record in enumerate(records):
                order = json.loads(base64.b64decode(record["kinesis"]["data"]))
                if order["id"] % 4 == 1 and order["id"] not in refused_once:
                    refused_once.add(order["id"])
                    number = records[min(place + off_by, len(records) - 1)]["kinesis"][
                        "sequenceNumber"
                    ]
                    return {"batchItemFailures": [{"itemIdentifier": number}]}
                written.add(order["id"])
            return {"batchItemFailures": []}

        return HandlerPipeline(handler, lambda: sorted(written))

    return make


def test_a_partial_failure_answer_that_is_off_by_one_is_found() -> None:
    with pytest.raises(NotConverged) as found:
        assert_converges(forwarder(off_by=1), ORDERS, seed=1)
    assert "batch 1: " in str(found.value)
    assert_converges(forwarder(off_by=0), ORDERS, seed=1)


# --- our own -------------------------------------------------------------------------------------


def flights() -> list[Event]:
    events = hostile.from_file(LAMBDAS.parent / "tests" / "events" / "kinesis_flights.json")
    poison = [Event(events[0].key, b"no flight"), Event(events[-1].key, b"{}")]
    return [*events[:6], *poison, *events[6:10]]


class Kinesis:
    """Takes PutRecords; refuses some records the first time."""

    def __init__(self) -> None:
        self.by_id: dict[str, dict[str, Any]] = {}
        self._calls = 0

    def put_records(self, *, StreamName: str, Records: list[dict[str, Any]]) -> dict[str, Any]:
        self._calls += 1
        results: list[dict[str, str]] = []
        for place, record in enumerate(Records):
            if self._calls % 3 == 1 and place % 4 == 2:
                results.append({"ErrorCode": "ProvisionedThroughputExceededException"})
                continue
            event = json.loads(record["Data"])
            self.by_id[event["event_id"]] = event
            results.append({"SequenceNumber": "1", "ShardId": "shardId-000000000000"})
        failed = sum("ErrorCode" in one for one in results)
        return {"FailedRecordCount": failed, "Records": results}


def test_enrich_converges() -> None:
    modules = Modules([LAMBDAS / "enrich"])
    with modules.entered():
        process: Any = handler_of("handler.process", LAMBDAS / "enrich")
        reference = __import__("logic").load_reference()

        def make() -> HandlerPipeline:
            kinesis = Kinesis()

            def handler(event: dict[str, Any], context: Any) -> Any:
                return process(
                    event["Records"],
                    kinesis=kinesis,
                    stream="s",
                    reference=reference,
                    pause=lambda _: None,
                )

            return HandlerPipeline(handler, lambda: kinesis.by_id)

        assert_converges(make, flights(), seed=1)


def test_batches_that_fail_whole_are_split_until_the_record_is_alone() -> None:
    seen: list[str] = []

    def handler(event: dict[str, Any], context: Any) -> None:
        data = [base64.b64decode(r["kinesis"]["data"]).decode() for r in event["Records"]]
        if "bad" in data:
            raise ValueError
        seen.extend(data)

    pipeline = HandlerPipeline(handler, lambda: seen)
    events = [Event("k", text.encode()) for text in ("a", "b", "bad", "c")]
    run(pipeline, Delivery(tuple(events), (4,)))
    assert sorted(set(seen)) == ["a", "b", "c"]
    assert pipeline.given_up == [b"bad"]


def test_a_pipeline_that_takes_no_event_is_no_pipeline_that_converges() -> None:
    def fails(event: dict[str, Any], context: Any) -> None:
        raise KeyError("customer")

    with pytest.raises(NothingProcessed, match="the same after 12 events as after none"):
        assert_converges(lambda: HandlerPipeline(fails, dict), ORDERS, examples=5, seed=1)
    with pytest.raises(ValueError, match="at least one event"):
        assert_converges(totals(remembers=True), [])


def test_a_state_that_the_next_pipeline_empties_is_compared_as_it_was() -> None:
    table: dict[str, int] = {}

    def make() -> HandlerPipeline:
        table.clear()

        def handler(event: dict[str, Any], context: Any) -> None:
            for record in event["Records"]:
                key = record["kinesis"]["partitionKey"]
                table[key] = table.get(key, 0) + 1

        return HandlerPipeline(handler, lambda: table)

    with pytest.raises(NotConverged):
        assert_converges(make, ORDERS, seed=1)


def test_an_error_of_the_tests_own_comes_through() -> None:
    def make() -> HandlerPipeline:
        def read() -> Any:
            raise RuntimeError("the table is gone")

        return HandlerPipeline(lambda event, context: None, read)

    with pytest.raises(RuntimeError, match="the table is gone"):
        assert_converges(make, ORDERS, seed=1)


def test_the_plain_delivery_is_one_at_a_time() -> None:
    assert in_order(ORDERS[:3]).batches == (1, 1, 1)
    assert (
        "delivered again, then a restart"
        in Delivery(tuple(ORDERS[:1]), (1,), frozenset({0}), frozenset({0})).described()
    )
