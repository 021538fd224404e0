"""A cloud under test, whatever it is: clients, names of its own, what is removed at the end, records read back."""

from __future__ import annotations

import contextlib
import io
import json
import os
import uuid
import zipfile
from collections.abc import Callable
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, WaiterError

from scripts.pipeline.targets import Target
from tests.support.server import wait_until

LOOK_EVERY_S = 0.1
# AWS and LocalStack take seconds for what takes headrace milliseconds.
WITHIN_S = {"headrace": 20.0, "aws": 300.0}
ELSEWHERE_WITHIN_S = 40.0
STACK_WITHIN_S = 240.0


class CloudUnderTest:
    """What the tests use of a cloud; what they make carries `prefix` and is removed at the end."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.prefix = f"it-{uuid.uuid4().hex[:8]}"
        self._made: list[Callable[[], Any]] = []
        self._clients: dict[str, Any] = {}
        self._serial = 0
        self._role = ""

    def client(self, service: str) -> Any:
        """Return a boto3 client that does not try again: what a cloud refuses is to be seen."""
        if service not in self._clients:
            config = Config(
                retries={"total_max_attempts": 1}, read_timeout=60, parameter_validation=False
            )
            make: Any = boto3.client
            self._clients[service] = make(service, config=config, **self.target.client_options())
        return self._clients[service]

    def name(self, what: str) -> str:
        """Return a name that nothing else has."""
        self._serial += 1
        return f"{self.prefix}-{what}-{self._serial}"

    def at_end(self, undo: Callable[[], Any]) -> None:
        """Remember how something is removed."""
        self._made.append(undo)

    def clean(self) -> None:
        """Remove what was made, the youngest first; what is gone already, or cannot go, is left."""
        for undo in reversed(self._made):
            with contextlib.suppress(ClientError):
                undo()

    def until(self, condition: Callable[[], Any], what: str, within_s: float | None = None) -> Any:
        """Return the first true value of `condition()`; fail, naming `what`, when there is none in time."""
        allowed_s = within_s or WITHIN_S.get(self.target.product, ELSEWHERE_WITHIN_S)
        return wait_until(condition, within_s=allowed_s, what=what, most_pause_s=LOOK_EVERY_S)

    # Streams

    def stream(self, shards: int = 1) -> str:
        """Make a stream; return its name."""
        kinesis, name = self.client("kinesis"), self.name("stream")
        kinesis.create_stream(StreamName=name, ShardCount=shards)
        self.at_end(lambda: kinesis.delete_stream(StreamName=name, EnforceConsumerDeletion=True))
        self.until_active(name)
        return name

    def until_active(self, stream: str) -> dict[str, Any]:
        """Wait until a stream is active; return its summary."""

        def summary() -> dict[str, Any] | None:
            answer = self.client("kinesis").describe_stream_summary(StreamName=stream)
            found: dict[str, Any] = answer["StreamDescriptionSummary"]
            return found if found["StreamStatus"] == "ACTIVE" else None

        found: dict[str, Any] = self.until(summary, f"stream {stream} is ACTIVE")
        return found

    def put(self, stream: str, items: list[tuple[str, Any]]) -> list[dict[str, Any]]:
        """Put (key, JSON value) pairs; return the answers, in order."""
        answers: list[dict[str, Any]] = []
        for start in range(0, len(items), 500):
            records = [
                {"PartitionKey": key, "Data": json.dumps(value).encode()}
                for key, value in items[start : start + 500]
            ]
            answer = self.client("kinesis").put_records(StreamName=stream, Records=records)
            assert answer["FailedRecordCount"] == 0, answer
            answers += answer["Records"]
        return answers

    def read(self, stream: str) -> list[tuple[str, Any]]:
        """Return all that is in a stream as (key, JSON value), shard after shard, parents before children."""
        kinesis, found = self.client("kinesis"), []
        shards = kinesis.list_shards(StreamName=stream)["Shards"]
        for shard in sorted(shards, key=lambda each: each["ShardId"]):
            iterator = kinesis.get_shard_iterator(
                StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            while iterator is not None:
                answer = kinesis.get_records(ShardIterator=iterator)
                found += [(r["PartitionKey"], json.loads(r["Data"])) for r in answer["Records"]]
                iterator = answer.get("NextShardIterator")
                if not answer["Records"] and not answer.get("MillisBehindLatest"):
                    break
        return found

    # Functions

    def role(self) -> str:
        """Return the ARN of a role for functions and deliveries; of AWS, the one that HEADRACE_TEST_ROLE names."""
        if self.target.is_aws:
            return os.environ["HEADRACE_TEST_ROLE"]
        if not self._role:
            iam, name = self.client("iam"), self.name("role")
            trust = {
                "Effect": "Allow",
                "Principal": {"Service": "lambda.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }
            policy = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
            answer = iam.create_role(RoleName=name, AssumeRolePolicyDocument=policy)
            self.at_end(lambda: iam.delete_role(RoleName=name))
            self._role = str(answer["Role"]["Arn"])
        return self._role

    def function(self, source: str, **environment: str) -> str:
        """Make a Python function of the module `app`; return its name."""
        lambda_, name = self.client("lambda"), self.name("function")
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("app.py", source)
        lambda_.create_function(
            FunctionName=name, Runtime="python3.13", Handler="app.handler", Role=self.role(),
            Timeout=20, MemorySize=256, Environment={"Variables": environment},
            Code={"ZipFile": buffer.getvalue()},
        )  # fmt: skip
        self.at_end(lambda: lambda_.delete_function(FunctionName=name))
        self.until(lambda: self._is_active(name), f"function {name} is Active")
        return name

    def _is_active(self, function: str) -> bool:
        found = self.client("lambda").get_function_configuration(FunctionName=function)
        return bool(found.get("State", "Active") == "Active")

    def map(self, stream: str, function: str, **settings: Any) -> str:
        """Have a function read a stream; return the mapping's id."""
        lambda_ = self.client("lambda")
        summary = self.until_active(stream)
        answer = lambda_.create_event_source_mapping(
            FunctionName=function, EventSourceArn=summary["StreamARN"],
            StartingPosition="TRIM_HORIZON", **settings,
        )  # fmt: skip
        self.at_end(lambda: lambda_.delete_event_source_mapping(UUID=answer["UUID"]))
        return str(answer["UUID"])

    def queue(self) -> tuple[str, str]:
        """Make a queue; return its address and its ARN."""
        sqs = self.client("sqs")
        url = sqs.create_queue(QueueName=self.name("queue"))["QueueUrl"]
        self.at_end(lambda: sqs.delete_queue(QueueUrl=url))
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return url, found["Attributes"]["QueueArn"]

    def messages(self, url: str) -> list[Any]:
        """Take the messages that wait in a queue."""
        sqs = self.client("sqs")
        found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=0)
        messages = found.get("Messages", [])
        for message in messages:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return [json.loads(message["Body"]) for message in messages]

    # Objects

    def bucket(self) -> str:
        """Make a bucket; return its name."""
        s3, name = self.client("s3"), self.name("bucket")
        s3.create_bucket(Bucket=name)
        self.at_end(lambda: s3.delete_bucket(Bucket=name))
        return name

    def objects(self, bucket: str) -> dict[str, bytes]:
        """Return a bucket's objects by key."""
        s3 = self.client("s3")
        keys = [item["Key"] for item in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]
        return {key: s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}

    # Stacks

    def create_stack(self, template: dict[str, Any]) -> tuple[str, str]:
        """Create a stack and wait for its end; return its name and its status."""
        cloudformation, name = self.client("cloudformation"), self.name("stack")
        cloudformation.create_stack(
            StackName=name, TemplateBody=json.dumps(template), Capabilities=["CAPABILITY_IAM"]
        )
        self.at_end(lambda: cloudformation.delete_stack(StackName=name))
        return name, self.ended(name)

    def update_stack(self, name: str, template: dict[str, Any]) -> str:
        """Update a stack and wait for its end; return its status."""
        self.client("cloudformation").update_stack(
            StackName=name, TemplateBody=json.dumps(template), Capabilities=["CAPABILITY_IAM"]
        )
        return self.ended(name)

    def ended(self, stack: str) -> str:
        """Wait until nothing happens to a stack any more; return its status."""

        def status() -> str | None:
            found = self.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
            state = str(found["StackStatus"])
            return None if state.endswith("_IN_PROGRESS") else state

        return str(self.until(status, f"the end of stack {stack}", STACK_WITHIN_S))

    def delete_stack(self, name: str) -> None:
        """Delete a stack and wait until it is gone."""
        cloudformation = self.client("cloudformation")
        cloudformation.delete_stack(StackName=name)
        with contextlib.suppress(WaiterError):
            cloudformation.get_waiter("stack_delete_complete").wait(
                StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
            )
