"""`headrace sql run` on a real cloud: from streams by a step of EMR into streams, and on from the checkpoint."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked_command import run_headrace
from tests.support.server import REGION, ServerProcess

pytestmark = pytest.mark.spark

QUERIES = """
CREATE STREAM flights (id VARCHAR KEY, origin VARCHAR, delay INT) WITH (stream = 'flights');
CREATE TABLE airports (origin VARCHAR PRIMARY KEY, name VARCHAR) WITH (stream = 'airports');
CREATE TABLE named AS SELECT origin, UCASE(name) AS name FROM airports WHERE name <> 'Newark';
CREATE STREAM late AS SELECT id, origin, delay FROM flights WHERE delay > 15;
"""


ID = {"name": "id", "type": "string"}
INFERRED = """CREATE STREAM flights FROM STREAM 'flights' INFER;
CREATE STREAM f (id VARCHAR KEY) WITH (stream = 'trips', registry_name = 'r', schema_name = 'f');
CREATE STREAM t WITH (glue_table = 'lake.t');
"""
MISTAKES = {
    "'flights' INFER": ("'flihts' INFER", "line 1, column 35: .*did you mean 'flights'"),
    "= 'f'": ("= 'g'", "line 2, column 79: EntityNotFoundException: Schema is not found"),
    "lake.t": ("lake.tx", "line 3, column 23: EntityNotFoundException: Table tx not found"),
}


def put(server: ServerProcess, stream: str, *records: tuple[str, Any]) -> None:
    kinesis = server.client("kinesis")
    for key, value in records:
        kinesis.put_record(StreamName=stream, Data=json.dumps(value), PartitionKey=key)


def read(server: ServerProcess, stream: str) -> list[tuple[str, Any]]:
    """Return the keys and values of a stream's records, sorted."""
    kinesis = server.client("kinesis")
    result: list[tuple[str, Any]] = []
    for shard in kinesis.list_shards(StreamName=stream)["Shards"]:
        at = kinesis.get_shard_iterator(
            StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        for record in kinesis.get_records(ShardIterator=at)["Records"]:
            value = json.loads(record["Data"])
            (value or {}).pop("_event_id", None)
            result.append((record["PartitionKey"], value))
    return sorted(result, key=str)


def command(server: ServerProcess, *arguments: str, typed: str = "", exit_code: int = 0) -> str:
    where = ["--endpoint-url", server.endpoint_url, "--region", REGION]
    done = run_headrace("sql", *arguments, *where, stdin=typed)
    assert done.returncode == exit_code, done.stdout + done.stderr
    return done.stderr if exit_code else done.stdout


def test_queries_run_as_a_step_and_go_on_from_their_checkpoint(
    tmp_path: Path, nightly: bool
) -> None:
    # By day the table alone, whose rows are read, kept and put: each query more is three processes.
    text = QUERIES if nightly else QUERIES.partition("CREATE STREAM late")[0]
    queries = tmp_path / "q.sql"
    queries.write_text(text)
    with ServerProcess(tmp_path / "data") as server:
        for stream in ("flights", "airports"):
            server.client("kinesis").create_stream(StreamName=stream, ShardCount=1)
            server.client("kinesis").get_waiter("stream_exists").wait(
                StreamName=stream, WaiterConfig={"Delay": 1}
            )
        put(server, "flights", ("a", {"origin": "EWR", "delay": 20}), ("b", {"delay": 1}))
        put(server, "airports", ("JFK", {"name": "Kennedy"}), ("EWR", {"name": "Newark"}))
        command(server, "run", str(queries), "--once")
        if nightly:
            assert read(server, "late") == [("a", {"id": "a", "origin": "EWR", "delay": 20})]
        assert read(server, "named") == [("JFK", {"origin": "JFK", "name": "KENNEDY"})]

        select = "SELECT * FROM named WHERE origin IN ('JFK', 'EWR');"
        shown = command(server, "query", str(queries), select)
        assert json.loads(shown) == {"origin": "JFK", "name": "KENNEDY"}

        changed = tmp_path / "changed" / "q.sql"
        changed.parent.mkdir()
        changed.write_text(text.replace("AS name FROM", "AS title FROM"))
        refusal = command(server, "run", str(changed), "--once", exit_code=1)
        assert "columns was origin STRING KEY, name STRING, is origin STRING KEY, title" in refusal
        if not nightly:
            # A second step takes as long as the first; test_sql_tables.py goes on from a checkpoint of files.
            return
        queries.write_text(QUERIES.replace("delay > 15", "delay > 16"))
        put(server, "flights", ("c", {"origin": "JFK", "delay": 90}))
        put(server, "airports", ("JFK", None))
        command(server, "run", str(queries), "--once")
        assert [key for key, _ in read(server, "late")] == ["a", "c"]
        assert ("JFK", None) in read(server, "named")
        assert len(read(server, "named")) == 2
        assert command(server, "query", str(queries), select) == ""


def test_the_prompt_shows_the_rows_that_are_there(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        queries = tmp_path / "q.sql"
        queries.write_text(QUERIES)
        refusal = command(server, "run", str(queries), exit_code=1).splitlines()
        assert [re.findall("Stream (.*) under", line) for line in refusal[-2:]] == [
            ["airports"],
            ["flights"],
        ]
        server.client("kinesis").create_stream(StreamName="flights", ShardCount=2)
        server.client("kinesis").get_waiter("stream_exists").wait(
            StreamName="flights", WaiterConfig={"Delay": 1}
        )
        put(server, "flights", ("a", {"origin": "EWR", "delay": 20}), ("b", {"delay": 1}))
        typed = (
            QUERIES.partition("CREATE TABLE")[0]
            + "SELECT id, delay FROM flights\n WHERE delay > 5;\n\\q\n"
        )
        assert command(server, typed=typed).splitlines() == ["ok", '{"id": "a", "delay": 20}']

        glue = server.client("glue")
        glue.create_registry(RegistryName="r")
        of = {"RegistryName": "r", "SchemaName": "f"}
        for number, fields in enumerate(([ID], [ID, {"name": "n", "type": ["null", "int"]}])):
            schema = json.dumps({"type": "record", "name": "f", "fields": fields})
            if number:
                glue.register_schema_version(SchemaId=of, SchemaDefinition=schema)
            else:
                glue.create_schema(
                    RegistryId={"RegistryName": "r"}, SchemaName="f", DataFormat="AVRO",
                    Compatibility="NONE", SchemaDefinition=schema,
                )  # fmt: skip
        glue.create_database(DatabaseInput={"Name": "lake"})
        parameters = {"typeOfData": "kinesis", "streamARN": "arn:aws:kinesis:us-east-1:1:stream/q"}
        storage = {"Columns": [{"Name": "n", "Type": "bigint"}], "Parameters": parameters}
        glue.create_table(
            DatabaseName="lake", TableInput={"Name": "t", "StorageDescriptor": storage}
        )
        queries.write_text(INFERRED)
        assert command(server, "check", str(queries)).startswith("0 queries, 3 streams")
        typed = f"{INFERRED}DESCRIBE flights;\nDESCRIBE f;\nDESCRIBE t;\nSHOW STREAMS;\n"
        lines = command(server, typed=typed).splitlines()
        assert [line for line in lines if not line.startswith("note: ")] == [
            "ok", "ok", "ok", "origin  STRING", "delay  BIGINT", "id  STRING  KEY", "n  INT", "n  BIGINT",
            "STREAM  flights  flights  JSON", "STREAM  f  trips  AVRO", "STREAM  t  q  JSON",
        ]  # fmt: skip
        for right, (wrong, sentence) in MISTAKES.items():
            queries.write_text(INFERRED.replace(right, wrong))
            assert re.search(sentence, command(server, "check", str(queries), exit_code=1))
