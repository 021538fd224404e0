"""A job of two streams as a real EMR step of the local cloud, its package sent along."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark_jobs.feed import Event, flights
from tests.support.server import REGION, ServerProcess, wait_until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

JOBS = Path(__file__).parents[2] / "spark_jobs"
BUCKET = "weather-work"


def package() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path in sorted(JOBS.glob("*.py")):
            archive.write(path, f"spark_jobs/{path.name}")
    return data.getvalue()


def fill(kinesis: Any, name: str, events: list[Event]) -> None:
    kinesis.create_stream(StreamName=name, ShardCount=2)
    kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    answer = kinesis.put_records(
        StreamName=name,
        Records=[{"Data": json.dumps(e).encode(), "PartitionKey": e["origin"]} for e in events],
    )
    assert answer["FailedRecordCount"] == 0


def test_departures_meet_their_weather_in_a_step(tmp_path: Path) -> None:
    some = flights(120)
    hours = sorted({event["event_time"][:13] for event in some})
    reports = [
        {
            "event_id": f"{origin}-{hour}",
            "event_time": f"{hour}:00:00Z",
            "origin": origin,
            "temp": float(number),
        }
        for number, hour in enumerate(hours)
        for origin in ("EWR", "JFK", "LGA")
    ]
    with ServerProcess(tmp_path / "data") as server:
        kinesis, s3, emr = (server.client(name) for name in ("kinesis", "s3", "emr"))
        fill(kinesis, "departed", some)
        fill(kinesis, "weather", reports)
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(Bucket=BUCKET, Key="spark_jobs.zip", Body=package())
        s3.upload_file(str(JOBS / "weather_delays.py"), BUCKET, "weather_delays.py")
        cluster = emr.run_job_flow(
            Name="jobs",
            LogUri=f"s3://{BUCKET}/logs/",
            Instances={"KeepJobFlowAliveWhenNoSteps": True},
        )["JobFlowId"]
        command = [
            *("spark-submit", "--conf", "spark.sql.shuffle.partitions=2"),
            *("--py-files", f"s3://{BUCKET}/spark_jobs.zip", f"s3://{BUCKET}/weather_delays.py"),
            *("--stream", "departed", "--weather-stream", "weather", "--region", REGION),
            *("--output", f"s3://{BUCKET}/out/", "--checkpoint", f"s3://{BUCKET}/checkpoint/"),
        ]
        jar = {"Jar": "command-runner.jar", "Args": command}
        step = {"Name": "weather", "ActionOnFailure": "CONTINUE", "HadoopJarStep": jar}
        step_id = emr.add_job_flow_steps(JobFlowId=cluster, Steps=[step])["StepIds"][0]

        def ended() -> str | None:
            status = emr.describe_step(ClusterId=cluster, StepId=step_id)["Step"]["Status"]
            return status["State"] if status["State"] in ("COMPLETED", "FAILED") else None

        def log(name: str) -> str:
            key = f"logs/{cluster}/steps/{step_id}/{name}.gz"
            return gzip.decompress(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()).decode()

        state = wait_until(ended, within_s=180, what="the step's end")
        assert state == "COMPLETED", log("stderr")[-4000:]
        said = f"read: {len(some) + len(reports)}, unreadable: 0, dropped as late: 0"
        assert said in log("stdout")
        listed = s3.list_objects_v2(Bucket=BUCKET, Prefix="out/joined/")["Contents"]
        bodies = [
            s3.get_object(Bucket=BUCKET, Key=item["Key"])["Body"].read()
            for item in listed
            if item["Key"].endswith(".parquet")
        ]
    joined = pa.concat_tables(pq.read_table(io.BytesIO(body)) for body in bodies).to_pylist()
    assert {row["event_id"]: row["temp"] for row in joined} == {
        event["event_id"]: float(hours.index(event["event_time"][:13])) for event in some
    }
    assert len(joined) == len(some)
