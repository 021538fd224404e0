"""The dashboard's JSON API, on a cloud in process: what it reads, what it changes, what it refuses."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.aws.calls.http import HttpRequest
from headrace.client.aggregation import aggregate
from headrace.dashboard import records
from tests.dashboard.pipeline import HOSTILE
from tests.support.clock import ShiftedClock
from tests.support.cloud import InProcessCloud


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path / "data", limits="off") as cloud:
        cloud.client("kinesis").create_stream(StreamName="orders", ShardCount=2)
        yield cloud


def get(cloud: InProcessCloud, path: str, query: str = "", status: int = 200) -> Any:
    answer = cloud.handle(HttpRequest("GET", f"/_headrace/api/{path}", query))
    assert answer.status == status, answer.body
    assert isinstance(answer.body, bytes)
    return json.loads(answer.body)


def post(cloud: InProcessCloud, name: str, value: Any, token: str | None = None) -> tuple[int, Any]:
    token = get(cloud, "session")["token"] if token is None else token
    body = json.dumps(value).encode()
    headers = {"x-headrace-token": token}
    answer = cloud.handle(HttpRequest("POST", f"/_headrace/api/{name}", "", headers, body))
    assert isinstance(answer.body, bytes)
    return answer.status, json.loads(answer.body)


def put(cloud: InProcessCloud, data: bytes, key: str = "k") -> dict[str, Any]:
    return cloud.client("kinesis").put_record(StreamName="orders", Data=data, PartitionKey=key)


def payloads(cloud: InProcessCloud, query: str = "position=oldest") -> list[dict[str, Any]]:
    return [one["payload"] for one in get(cloud, "streams/orders/records", query)["records"]]


def test_records_of_all_shards_are_merged_by_arrival(cloud: InProcessCloud) -> None:
    for number in range(20):
        put(cloud, b"%d" % number, f"k{number}")
    records = get(cloud, "streams/orders/records", "position=oldest&limit=20")["records"]
    assert len({record["shardId"] for record in records}) == 2
    assert sorted(int(record["payload"]["data"]) for record in records) == list(range(20))
    times = [record["timeMs"] for record in records]
    assert times == sorted(times)


def test_positions_are_newest_time_and_sequence(cloud: InProcessCloud) -> None:
    answers = [put(cloud, b"%d" % number) for number in range(5)]
    assert [one["data"] for one in payloads(cloud, "position=newest&limit=2")] == ["3", "4"]
    number = answers[2]["SequenceNumber"]
    assert [p["data"] for p in payloads(cloud, f"position=sequence&at={number}")] == ["2", "3", "4"]
    assert len(payloads(cloud, "position=time&at=1000")) == 5
    assert (
        "positive number" in get(cloud, "streams/orders/records", "position=time", 400)["message"]
    )


def test_search_looks_at_keys_and_payloads(cloud: InProcessCloud) -> None:
    put(cloud, b"Apples", "a")
    put(cloud, b"pears", "APPLE-cart")
    put(cloud, b"plums", "p")
    data = [one["data"] for one in payloads(cloud, "position=oldest&search=apple")]
    assert data == ["Apples", "pears"]


def test_bytes_that_are_no_text_come_as_base64(cloud: InProcessCloud) -> None:
    for data in (b"\xff\xfe\x00", b"caf\xc3", b"a\x00b"):
        put(cloud, data)
    rows = payloads(cloud)
    assert [one["encoding"] for one in rows] == ["base64"] * 3
    assert base64.b64decode(rows[1]["data"]) == b"caf\xc3"


def test_gzip_and_aggregates_are_unpacked(cloud: InProcessCloud) -> None:
    put(cloud, gzip.compress(b"packed"))
    put(cloud, aggregate(["a", "b"], [b"one", b"two"], {}))
    records = get(cloud, "streams/orders/records", "position=oldest")["records"]
    assert records[0]["payload"]["packing"] == ["gzip"]
    assert records[0]["payload"]["data"] == "packed"
    inside = [(one["partitionKey"], one["payload"]["data"]) for one in records[1]["userRecords"]]
    assert inside == [("a", "one"), ("b", "two")]


def test_a_large_record_is_cut_in_the_list_and_whole_on_its_own(cloud: InProcessCloud) -> None:
    kinesis = cloud.client("kinesis")
    arn = kinesis.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"][
        "StreamARN"
    ]
    kinesis.update_max_record_size(StreamARN=arn, MaxRecordSizeInKiB=10240)
    size = 10 * 1024 * 1024 - 100
    answer = put(cloud, b"x" * size)
    row = payloads(cloud)[0]
    assert (row["isCut"], row["bytes"], len(row["data"])) == (True, size, 2048)
    whole = get(cloud, f"streams/orders/records/{answer['ShardId']}/{answer['SequenceNumber']}")
    assert len(whole["payload"]["data"]) == size


def test_deep_json_is_text(cloud: InProcessCloud) -> None:
    deep = "[" * 1_000 + "]" * 1_000
    put(cloud, deep.encode(), HOSTILE)
    record = get(cloud, "streams/orders/records", "position=oldest")["records"][0]
    assert (record["payload"]["data"], record["partitionKey"]) == (deep, HOSTILE)


def test_a_write_needs_the_token(cloud: InProcessCloud) -> None:
    values = {"stream": "orders", "partitionKey": "k", "data": "x"}
    status, answer = post(cloud, "put", values, token="wrong")
    assert (status, "X-Headrace-Token" in answer["message"]) == (403, True)
    assert payloads(cloud) == []
    assert post(cloud, "put", values)[0] == 200
    assert [one["data"] for one in payloads(cloud)] == ["x"]


def test_split_merge_and_replay(cloud: InProcessCloud) -> None:
    original = put(cloud, b"again")
    record = {"shardId": original["ShardId"], "sequenceNumber": original["SequenceNumber"]}
    assert post(cloud, "replay", {"stream": "orders", **record})[0] == 200
    assert [one["data"] for one in payloads(cloud)] == ["again", "again"]
    assert post(cloud, "split", {"stream": "orders", "shardId": "shardId-000000000000"})[0] == 200
    shards = get(cloud, "streams/orders")["shards"]
    assert [one["parents"] for one in shards if one["parents"]] == [["shardId-000000000000"]] * 2
    pair = {"shardId": "shardId-000000000002", "adjacentShardId": "shardId-000000000003"}
    assert post(cloud, "merge", {"stream": "orders", **pair})[0] == 200
    assert sum(one["isOpen"] for one in get(cloud, "streams/orders")["shards"]) == 2


@pytest.mark.parametrize("body", [b"[]", b"{", b"[" * 100_000, b'{"stream": 3}'])
def test_a_write_that_is_no_question_is_refused(cloud: InProcessCloud, body: bytes) -> None:
    headers = {"x-headrace-token": get(cloud, "session")["token"]}
    assert cloud.handle(HttpRequest("POST", "/_headrace/api/put", "", headers, body)).status == 400


def test_what_is_missing_is_named(cloud: InProcessCloud) -> None:
    answer = get(cloud, "streams/gone", status=404)
    assert (answer["operation"], answer["code"]) == (
        "DescribeStreamSummary",
        "ResourceNotFoundException",
    )
    assert get(cloud, "functions/gone", status=404)["code"] == "ResourceNotFoundException"


def test_the_timeline_counts_arrivals(cloud: InProcessCloud) -> None:
    for number in range(7):
        put(cloud, b"x", str(number))
    counts = get(cloud, "streams/orders/timeline", "steps=10")["counts"]
    assert (len(counts), sum(counts)) == (10, 7)


def test_the_hottest_keys_have_their_shares(cloud: InProcessCloud) -> None:
    for number in range(10):
        put(cloud, b"x" * 100, "hot" if number else "cold")
    keys = get(cloud, "streams/orders/keys")["keys"]
    assert (keys[0]["key"], keys[0]["share"] > 0.8) == ("hot", True)


def test_the_hottest_keys_of_a_busy_stream_are_a_sample(
    cloud: InProcessCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MOST_SKETCHED", 400)
    kinesis = cloud.client("kinesis")
    for _ in range(20):
        rows = [{"Data": b"x" * 9, "PartitionKey": "hot" if n % 2 else f"k{n}"} for n in range(200)]
        kinesis.put_records(StreamName="orders", Records=rows)
    value = get(cloud, "streams/orders/keys")
    assert value["isSample"]
    assert value["records"] <= 400
    assert value["keys"][0]["key"] == "hot"
    assert 0.3 < value["keys"][0]["share"] < 0.9


def test_the_newest_records_of_a_busy_stream_are_the_newest(
    cloud: InProcessCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More come in ten seconds than a search reads."""
    monkeypatch.setattr(records, "MOST_SEARCHED", 100)
    monkeypatch.setattr(records, "LOCAL_SPAN_MS", 1)
    kinesis = cloud.client("kinesis")
    for start in range(0, 1_000, 10):
        rows = [{"Data": b"%d" % n, "PartitionKey": "k"} for n in range(start, start + 10)]
        kinesis.put_records(StreamName="orders", Records=rows)
    newest = [int(one["data"]) for one in payloads(cloud, "limit=50")]
    assert newest == list(range(1_000 - len(newest), 1_000))
    assert newest


def test_names_are_data_in_the_exported_code(cloud: InProcessCloud) -> None:
    code = get(cloud, "export/cdk")["code"]
    compile(code, "dashboard.py", "exec")
    widgets = get(cloud, "export/cloudwatch")["widgets"]
    assert widgets[0]["properties"]["metrics"][0][:2] == ["AWS/Kinesis", "IncomingRecords"]


def test_the_page_allows_no_inline_code_and_no_other_origin(cloud: InProcessCloud) -> None:
    answer = cloud.handle(HttpRequest("GET", "/_headrace/", headers={"accept": "text/html"}))
    policy = dict(answer.headers)["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "script-src 'self'" in policy
    assert b"<script>" not in answer.body  # type: ignore[operator]


def test_the_page_is_small() -> None:
    folder = Path("headrace/dashboard/static")
    files = [one for one in folder.rglob("*") if one.suffix in (".js", ".css", ".html", ".svg")]
    assert sum(one.stat().st_size for one in files) < 300_000


def test_shards_over_time_have_their_lives_and_heat(tmp_path: Path) -> None:
    clock = ShiftedClock()
    with InProcessCloud(tmp_path / "data", limits="off", clock=clock) as cloud:
        kinesis = cloud.client("kinesis")
        kinesis.create_stream(StreamName="orders", ShardCount=1)
        opened_ms = clock.now_ms()
        for number in range(60):
            put(cloud, b"x", str(number))
        clock.advance(600)
        token = get(cloud, "session")["token"]
        first = {"stream": "orders", "shardId": "shardId-000000000000"}
        assert post(cloud, "split", first, token)[0] == 200
        split_ms = clock.now_ms()
        clock.advance(600)
        pair = {"shardId": "shardId-000000000001", "adjacentShardId": "shardId-000000000002"}
        assert post(cloud, "merge", {"stream": "orders", **pair}, token)[0] == 200
        for number in range(30):
            put(cloud, b"x", str(number))
        clock.advance(600)
        shown = get(cloud, "streams/orders/lineage")
        by_number = {int(one["shardId"][-1]): one for one in shown["shards"]}
        assert [one["parents"] for one in by_number.values()] == [
            [],
            ["shardId-000000000000"],
            ["shardId-000000000000"],
            ["shardId-000000000001", "shardId-000000000002"],
        ]
        within_ms = 3_000
        assert abs(by_number[0]["openedMs"] - opened_ms) < within_ms
        for child in (1, 2):
            assert by_number[0]["closedMs"] == by_number[child]["openedMs"]
            assert abs(by_number[child]["openedMs"] - split_ms) < within_ms
            assert by_number[child]["closedMs"] == by_number[3]["openedMs"]
        assert by_number[3]["closedMs"] is None
        # Records times seconds: the first third in the first shard, the last in the last, nothing between.
        step_s = (shown["toMs"] - shown["fromMs"]) / shown["steps"] / 1000
        rates = shown["rates"]
        assert set(rates) == {"shardId-000000000000", "shardId-000000000003"}
        assert sum(rates["shardId-000000000000"]) * step_s == pytest.approx(60, abs=1)
        assert sum(rates["shardId-000000000003"]) * step_s == pytest.approx(30, abs=1)
        third = shown["steps"] // 3
        assert not any(rates["shardId-000000000000"][third:])
        # Only what was open in the last five minutes.
        late = get(cloud, "streams/orders/lineage", "span=300000")
        assert [one["shardId"][-1] for one in late["shards"]] == ["3"]
        assert (
            get(cloud, "streams/gone/lineage", status=404)["operation"] == "DescribeStreamSummary"
        )
