"""Counts how often each path through headrace returns to a file that it had left (docs/architecture.md).

Usage: python -m scripts.count_returns [TREE]
       python -m scripts.count_returns --show "step to process"

It starts a cloud, runs every path once, and then TRACES times while it records each function at its first call, on
every thread and in every file of `headrace/`. The trace with the fewest functions counts: it met the least work of
others. The last figure leaves out the leaf modules (records, facts, errors, limits). BACKGROUND is never recorded:
workers and a timer, with everything that they call.
TREE is the folder of another `headrace`, for example an older one; it runs with this environment's libraries.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import itertools
import json
import os
import socket
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

Call = tuple[str, str]

# The paths in the order of the table.
PATHS = (
    "a request in one piece",
    "the same in two",
    "PutRecords",
    "GetRecords",
    "Invoke",
    "shard to Lambda to checkpoint",
    "shard to Firehose to object",
    "PutObject",
    "template to resource",
    "step to process",
    "rule to Kinesis",
    "Step Functions task",
    "PutItem",
    "SendMessage",
)
LEAVES = ("state.py", "spark_versions.py", "extras.py", "errors.py", "limits.py")
# Work of background workers and a timer, which is independent of the request; some had other files before.
BACKGROUND = frozenset({
    ("adapters/telemetry.py", "ServiceMetrics.step"),
    ("aws/server/server.py", "Server._look_regularly"),
    ("aws/server.py", "Server._look_regularly"),
    ("dashboard/sampler.py", "Sampler.step"),
    ("fallback/log_retention.py", "LogRetention.step"),
    ("services/dynamodb/patches.py", "ItemExpiry.step"),
    ("services/emr/backend.py", "Announcer.step"),
    ("services/kinesis/metrics.py", "MinuteMetrics.step"),
    ("services/kinesis/resharding.py", "Retention.step"),
    ("services/kinesis/shards/retention.py", "Retention.step"),
    ("services/lambda_/invocations/pools.py", "Pools.step"),
    ("services/logs/patches.py", "LogRetention.step"),
    ("spark_submit/history.py", "EventLogBounds.step"),
})  # fmt: skip
ROLE = "arn:aws:iam::000000000000:role/r"
TRACES = 4
OPEN = ["PENDING", "RUNNING", "CANCEL_PENDING"]
_PAUSE_S, _LOOK_S, _LONGEST_S = 0.02, 1.0, 60.0


def returns(calls: Iterable[Call]) -> tuple[int, list[Call]]:
    """Return how often the calls return to a file that they had left, and the functions in order of their first call.

    `calls` are pairs of a file below `headrace/` and a function.
    """
    functions = list(dict.fromkeys(calls))
    left: set[str] = set()
    current, count = "", 0
    for file, _ in functions:
        if file != current:
            left.add(current)
            count += file in left
            current = file
    return count, functions


@dataclass
class Tracer:
    """Records the calls of a tree's functions on all threads, while `calls` is a list."""

    package: str
    calls: list[Call] | None = None
    _files: dict[CodeType, str] = field(default_factory=dict[CodeType, str])
    # By thread, the running frame that is left out.
    _left_out: dict[int, FrameType] = field(default_factory=dict[int, FrameType])

    def begin(self) -> None:
        """Trace every call on this thread, and on threads that start from now on."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def trace_quietest(self, run: Callable[[], object], *, pause_s: float) -> list[Call]:
        """Run a path TRACES times, each after a pause; return the calls of the run with the fewest functions."""
        traces: list[list[Call]] = []
        for _ in range(TRACES):
            time.sleep(pause_s)
            self.calls = []
            traces.append(self.calls)
            run()
            self.calls = None
        return min(traces, key=lambda calls: len(set(calls)))

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        calls, thread = self.calls, threading.get_ident()
        if event == "return" and self._left_out.get(thread) is frame:
            del self._left_out[thread]
        if event != "call" or calls is None or thread in self._left_out:
            return
        code = frame.f_code
        file = self._files.get(code)
        if file is None:
            own = code.co_filename.startswith(self.package) and not code.co_name.startswith("<")
            file = self._files[code] = code.co_filename[len(self.package) :] if own else ""
        if (file, code.co_qualname) in BACKGROUND:
            self._left_out[thread] = frame
        elif file:
            calls.append((file, code.co_qualname))


class PathRunner:
    """Runs the paths on a cloud. `traced` has the calls of each path's quietest run."""

    def __init__(self, tracer: Tracer, port: int) -> None:
        import boto3

        self.traced: dict[str, list[Call]] = {}
        self._tracer = tracer
        self._port = port
        session = boto3.Session("test", "test", region_name="us-east-1")
        self._client: Callable[[str], Any] = lambda name: session.client(
            name, endpoint_url=f"http://127.0.0.1:{port}"
        )
        self._s3: Any = self._client("s3")
        self._s3.create_bucket(Bucket="bkt")

    def run_all(self) -> None:
        """Run all paths."""
        self._run_kinesis()
        self._run_parser()
        self._run_lambda()
        self._run_firehose()
        self._run_s3()
        self._run_cloudformation()
        self._run_emr()
        self._run_moto()

    def _run_parser(self) -> None:
        """Send a request in one piece, and one whose body comes after its head."""
        credential = "test/20260101/us-east-1/kinesis/aws4_request"
        signature = "a" * 64
        head = (
            "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n"
            "Content-Type: application/x-amz-json-1.1\r\n"
            "X-Amz-Target: Kinesis_20131202.ListStreams\r\n"
            f"Authorization: AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, "
            f"Signature={signature}\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", self._port)) as connection:

            def ask(*pieces: bytes) -> None:
                for piece in pieces:
                    connection.sendall(piece)
                    time.sleep(_LOOK_S)
                if b" 200 " not in connection.recv(4096):
                    raise SystemExit("the parser's request is refused: nothing is counted")

            self._trace("a request in one piece", lambda: ask(head.encode() + b"{}"))
            self._trace("the same in two", lambda: ask(head.encode(), b"{}"))

    def _run_kinesis(self) -> None:
        kinesis = self._client("kinesis")
        arn = self._stream("one")
        records = [{"Data": b"x" * 50, "PartitionKey": str(i)} for i in range(5)]
        shard = kinesis.list_shards(StreamARN=arn)["Shards"][0]["ShardId"]
        iterator = kinesis.get_shard_iterator(
            StreamARN=arn, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        self._trace("PutRecords", lambda: kinesis.put_records(StreamARN=arn, Records=records))
        self._trace("GetRecords", lambda: kinesis.get_records(ShardIterator=iterator))

    def _run_lambda(self) -> None:
        function = self._client("lambda")
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr("h.py", "def handler(e, c):\n    return {}\n")
        function.create_function(
            FunctionName="f", Runtime="python3.11", Role=ROLE, Handler="h.handler",
            Code={"ZipFile": code.getvalue()},
        )  # fmt: skip
        function.get_waiter("function_active_v2").wait(FunctionName="f")
        self._trace("Invoke", lambda: function.invoke(FunctionName="f", Payload=b"{}"))
        arn = self._stream("two")
        mapping = function.create_event_source_mapping(
            FunctionName="f", EventSourceArn=arn, StartingPosition="TRIM_HORIZON"
        )["UUID"]
        self._until(lambda: function.get_event_source_mapping(UUID=mapping)["State"] == "Enabled")
        self._trace("shard to Lambda to checkpoint", lambda: self._put(arn), and_then_s=1.5)
        function.delete_event_source_mapping(UUID=mapping)

    def _run_firehose(self) -> None:
        firehose = self._client("firehose")
        arn = self._stream("three")
        firehose.create_delivery_stream(
            DeliveryStreamName="d",
            DeliveryStreamType="KinesisStreamAsSource",
            KinesisStreamSourceConfiguration={"KinesisStreamARN": arn, "RoleARN": ROLE},
            ExtendedS3DestinationConfiguration={
                "BucketARN": "arn:aws:s3:::bkt", "RoleARN": ROLE, "Prefix": "p/",
                "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
            },
        )  # fmt: skip
        self._put(arn)
        self._until(lambda: self._s3.list_objects_v2(Bucket="bkt", Prefix="p/")["KeyCount"] > 0)
        self._trace("shard to Firehose to object", lambda: self._put(arn), and_then_s=2)

    def _run_s3(self) -> None:
        self._trace("PutObject", lambda: self._s3.put_object(Bucket="bkt", Key="q", Body=b"1"))

    def _run_cloudformation(self) -> None:
        stacks = self._client("cloudformation")
        name = {"Fn::Sub": "${AWS::StackName}-s"}
        stream = {"Type": "AWS::Kinesis::Stream", "Properties": {"ShardCount": 1, "Name": name}}
        template = json.dumps({"Resources": {"S": stream}})
        names = (f"v{number}" for number in itertools.count())
        self._trace(
            "template to resource",
            lambda: stacks.create_stack(StackName=next(names), TemplateBody=template),
            and_then_s=1.5,
        )

    def _run_emr(self) -> None:
        emr = self._client("emr")
        self._s3.put_object(Bucket="bkt", Key="j.py", Body=b"print(1)\n")
        cluster = emr.run_job_flow(
            Name="c", ReleaseLabel="emr-7.9.0", JobFlowRole="r", ServiceRole="r",
            Instances={
                "MasterInstanceType": "m5.xlarge", "InstanceCount": 1,
                "KeepJobFlowAliveWhenNoSteps": True,
            },
            LogUri="s3://bkt/logs/", Applications=[{"Name": "Spark"}],
        )["JobFlowId"]  # fmt: skip
        step = {
            "Name": "s", "ActionOnFailure": "CONTINUE",
            "HadoopJarStep": {"Jar": "command-runner.jar", "Args": ["spark-submit", "s3://bkt/j.py"]},
        }  # fmt: skip

        def run() -> None:
            emr.add_job_flow_steps(JobFlowId=cluster, Steps=[step])
            self._wait_unnoted(
                lambda: not emr.list_steps(ClusterId=cluster, StepStates=OPEN)["Steps"]
            )

        self._trace("step to process", run)

    def _run_moto(self) -> None:
        """Send an event by a rule, run a task of a state machine, put an item, send a message."""
        arn = self._stream("four")
        events = self._client("events")
        events.put_rule(Name="r", EventPattern='{"source": ["s"]}')
        events.put_targets(Rule="r", Targets=[{"Id": "t", "Arn": arn, "RoleArn": ROLE}])
        entry = {"Source": "s", "DetailType": "d", "Detail": "{}"}
        self._trace("rule to Kinesis", lambda: events.put_events(Entries=[entry]), and_then_s=1.5)
        states = self._client("stepfunctions")
        task = {
            "Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "End": True,
            "Parameters": {"FunctionName": "f", "Payload": {}},
        }  # fmt: skip
        definition = json.dumps({"StartAt": "T", "States": {"T": task}})
        machine = states.create_state_machine(name="m", definition=definition, roleArn=ROLE)

        def run() -> None:
            started = states.start_execution(stateMachineArn=machine["stateMachineArn"])
            named = {"executionArn": started["executionArn"]}
            self._wait_unnoted(lambda: states.describe_execution(**named)["status"] != "RUNNING")

        self._trace("Step Functions task", run, and_then_s=1.5)
        table = self._client("dynamodb")
        key = {"AttributeName": "k", "KeyType": "HASH"}
        table.create_table(
            TableName="t", KeySchema=[key], BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        )  # fmt: skip
        self._trace("PutItem", lambda: table.put_item(TableName="t", Item={"k": {"S": "a"}}))
        queues = self._client("sqs")
        url = queues.create_queue(QueueName="q")["QueueUrl"]
        self._trace("SendMessage", lambda: queues.send_message(QueueUrl=url, MessageBody="m"))

    def _stream(self, name: str) -> str:
        kinesis = self._client("kinesis")
        kinesis.create_stream(StreamName=name, ShardCount=1)
        kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
        return kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"][
            "StreamARN"
        ]

    def _put(self, arn: str) -> None:
        self._client("kinesis").put_record(StreamARN=arn, Data=b"x", PartitionKey="a")

    def _wait_unnoted(self, is_so: Callable[[], bool]) -> None:
        """Wait for the end of a path; seldom ask, because the cloud's work meanwhile is not recorded."""
        time.sleep(_LOOK_S)
        while not self._unnoted(is_so):
            time.sleep(_LOOK_S)

    def _unnoted(self, ask: Callable[[], Any]) -> Any:
        """Send a request that is not part of the path."""
        noted, self._tracer.calls = self._tracer.calls, None
        try:
            return ask()
        finally:
            self._tracer.calls = noted

    def _trace(self, name: str, go: Callable[[], object], *, and_then_s: float = 0) -> None:
        def run() -> None:
            go()
            time.sleep(and_then_s)

        run()
        self.traced[name] = self._tracer.trace_quietest(run, pause_s=_LOOK_S)

    def _until(self, is_so: Callable[[], bool]) -> None:
        end_s = time.monotonic() + _LONGEST_S
        while not is_so():
            if time.monotonic() > end_s:
                raise SystemExit("the cloud makes no progress: nothing is counted")
            time.sleep(_PAUSE_S)


def serve(folder: Path) -> int:
    """Start a cloud on a free port, and return the port; the cloud runs until the process ends."""
    from headrace.cloud import Cloud, server_for
    from headrace.core.config import Config

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    cloud = Cloud(Config(data_dir=folder / "data", port=port))
    server = server_for(cloud)
    is_ready = threading.Event()

    async def run() -> None:
        started: Any = server.start(listener)
        if asyncio.iscoroutine(started):
            await started
        is_ready.set()
        await asyncio.Event().wait()

    threading.Thread(target=lambda: asyncio.run(run()), daemon=True).start()
    is_ready.wait(_LONGEST_S)
    cloud.start(port)
    return port


def main() -> None:
    """Run a tree's paths and print their figures."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("tree", nargs="?", type=Path, default=Path(__file__).parent.parent)
    arguments.add_argument("--show", metavar="PATH", help="also print this path, file by file")
    args = arguments.parse_args()
    tree = args.tree.resolve()
    sys.path.insert(0, str(tree))
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    tracer = Tracer(f"{tree}/headrace/")
    tracer.begin()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        runner = PathRunner(tracer, serve(Path(folder)))
        runner.run_all()
        print(f"{'':32}  returns  functions  files  returns without leaves")
        for name in PATHS:
            calls = runner.traced[name]
            count, functions = returns(calls)
            less, _ = returns(call for call in calls if not call[0].endswith(LEAVES))
            files = len({file for file, _ in functions})
            print(f"{name:32}{count:9}{len(functions):11}{files:7}{less:9}")
            if name == args.show:
                print("\n".join(f"    {file}: {function}" for file, function in functions))
        sys.stdout.flush()
        os._exit(0)  # the cloud's workers need no orderly end


if __name__ == "__main__":
    main()
