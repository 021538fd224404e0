"""Each action of each statement of the app's roles is taken away for real, in enforce mode, and its stage runs again.

The app is deployed once. For every action the role's policy is put without it, the stage that the role serves runs, and
the policy is put back. Something must lack it: the refusal is named in the report, or the stage does not end well. What
can go without either is in `JUSTIFIED`, with its reason. A sample of ten always runs, in `test_permissions.py`.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.flights import iter_events
from headrace.permissions.decisions.report import report_of
from headrace.testing.clouds import ServedCloud
from headrace.testing.stacks import DeployedStacks, deploy
from tests.cdk.test_permissions import Ran, mutations, own_policies, short
from tests.support.emr import cluster_request
from tests.support.server import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark]

LONGEST_S = 120.0
CDK_GRANTS = "the CDK grants it with what is needed"
# hadoop.apache.org/docs/stable/hadoop-aws/tools/hadoop-aws/assumed_roles.html lists what S3A needs to read and write.
MULTIPART = (
    "S3A needs it where an upload in parts is cut short (documented); files here are written whole"
)
# By role and action, why nothing fails without it.
JUSTIFIED = {
    ("NodeRole", "s3:AbortMultipartUpload"): MULTIPART,
    ("NodeRole", "s3:ListBucketMultipartUploads"): MULTIPART,
    (
        "NodeRole",
        "s3:GetBucketLocation",
    ): "S3A and EMRFS look up the bucket's region (documented as `s3:Get*`)",
    ("Enrich", "kinesis:SubscribeToShard"): f"{CDK_GRANTS}; no consumer is registered",
    ("Enrich", "kinesis:DescribeStreamConsumer"): CDK_GRANTS,
    ("Enrich", "kinesis:DescribeStreamSummary"): CDK_GRANTS,
    ("Enrich", "kinesis:ListStreams"): CDK_GRANTS,
    ("Enrich", "logs:CreateLogStream"): "headrace makes a function's log stream itself",
    ("Enrich", "sqs:GetQueueAttributes"): CDK_GRANTS,
    ("Enrich", "sqs:GetQueueUrl"): CDK_GRANTS,
}

Names = set[tuple[str, str]]


@dataclass
class App:
    """The app, deployed in enforce mode."""

    cloud: ServedCloud
    stacks: DeployedStacks
    flights: Iterator[dict[str, Any]] = field(default_factory=lambda: iter_events(1))

    def named(self) -> Names:
        """Return who was denied which action since the report was cleared."""
        rows = report_of(self.cloud.cloud.decisions)["denied"]
        return {(short(row["principal"]), row["action"]) for row in rows}

    def seen(self) -> Names:
        """Return who did what since then."""
        entries = self.cloud.cloud.decisions.entries()
        return {(short(e.identity.arn), e.access.action) for e in entries}

    def put_flight(self) -> None:
        """Put a flight, and a record that is none."""
        event = next(self.flights)
        data = json.dumps(event).encode()
        stream = self.stacks.outputs["FlightsStreamName"]
        records = [{"Data": d, "PartitionKey": "x"} for d in (data, b"no flight")]
        self.cloud.client("kinesis").put_records(StreamName=stream, Records=records)


class Enriching:
    """A mapping is made anew, and the function takes a flight and fails at a record that is none."""

    roles = ("Enrich",)
    longest_s = 60.0

    def __init__(self, app: App) -> None:
        self.app = app
        self._lambda = app.cloud.client("lambda")
        self._queue = app.stacks.outputs["FailureQueueUrl"]

    def begin(self) -> None:
        """Make the mapping anew, then put."""
        (mapping,) = self._lambda.list_event_source_mappings()["EventSourceMappings"]
        settings = {
            name: mapping[name]
            for name in (
                "EventSourceArn", "BatchSize", "MaximumBatchingWindowInSeconds", "DestinationConfig",
                "MaximumRetryAttempts", "BisectBatchOnFunctionError", "FunctionResponseTypes",
            )
            if name in mapping
        }  # fmt: skip
        self._settings = {**settings, "FunctionName": mapping["FunctionArn"]}
        self._lambda.delete_event_source_mapping(UUID=mapping["UUID"])
        wait(lambda: not self._lambda.list_event_source_mappings()["EventSourceMappings"])
        self._is_made = False
        kinesis = self.app.cloud.client("kinesis")
        stream = self.app.stacks.outputs["EnrichedStreamName"]
        shards = kinesis.list_shards(StreamName=stream)["Shards"]
        self._iterators = [
            kinesis.get_shard_iterator(
                StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="LATEST"
            )["ShardIterator"]
            for shard in shards
        ]
        self._arrived = self._failed = False
        self._make()
        self.app.put_flight()

    def _make(self) -> None:
        if not self._is_made:
            try:
                self._lambda.create_event_source_mapping(
                    **self._settings, StartingPosition="AT_TIMESTAMP", StartingPositionTimestamp=self._now() - 1
                )  # fmt: skip
                self._is_made = True
            except self._lambda.exceptions.InvalidParameterValueException:
                self._is_made = False

    def _now(self) -> float:
        return self.app.cloud.cloud.clock.now_ms() / 1000

    def done(self) -> bool:
        """Whether the flight has arrived, and the failure."""
        self.app.cloud.advance(seconds=5)
        kinesis = self.app.cloud.client("kinesis")
        for place, iterator in enumerate(self._iterators):
            found = kinesis.get_records(ShardIterator=iterator)
            self._iterators[place] = found["NextShardIterator"]
            self._arrived |= bool(found["Records"])
        sqs = self.app.cloud.client("sqs")
        for message in sqs.receive_message(QueueUrl=self._queue).get("Messages", ()):
            sqs.delete_message(QueueUrl=self._queue, ReceiptHandle=message["ReceiptHandle"])
            self._failed = True
        return self._arrived and self._failed

    def mend(self) -> None:
        """Let it end well once the policy is put back."""
        self._make()
        self.app.put_flight()
        wait(self.done)


class Delivering:
    """Firehose takes an enriched flight to S3, and what is none to the error output."""

    roles = ("FlightsRole",)
    longest_s = 60.0

    def __init__(self, app: App) -> None:
        self.app = app

    def begin(self) -> None:
        """Put."""
        self._before = self._status()
        self.app.put_flight()
        stream = self.app.stacks.outputs["EnrichedStreamName"]
        self.app.cloud.client("kinesis").put_record(
            StreamName=stream, Data=b"no JSON", PartitionKey="x"
        )

    def _status(self) -> dict[str, Any]:
        return self.app.cloud.cloud.firehose.statuses()[0]

    def done(self) -> bool:
        """Whether both have come."""
        self.app.cloud.advance(seconds=30)
        now = self._status()
        return all(now[n] > self._before[n] for n in ("delivered_records", "failed_records"))

    def mend(self) -> None:
        """Let it end well once the policy is put back."""
        wait(self.done)


class Computing:
    """The Spark job runs as a step, and leaves its tables and logs."""

    roles = ("NodeRole",)
    longest_s = 300.0

    def __init__(self, app: App) -> None:
        self.app = app
        out = app.stacks.outputs
        self._arguments = [
            "spark-submit",
            *shlex.split(out["SubmitOptions"]),
            out["JobUri"],
            *("--stream", out["EnrichedStreamName"], "--region", "us-east-1"),
            *("--output", out["ResultsUri"], "--checkpoint", out["CheckpointUri"]),
        ]
        self._ids = {"ClusterId": out["ClusterId"]}

    def begin(self) -> None:
        """Add the step, with something to read."""
        self.app.put_flight()
        step = {
            "Name": "departures",
            "ActionOnFailure": "CONTINUE",
            "HadoopJarStep": {"Jar": "command-runner.jar", "Args": self._arguments},
        }
        emr = self.app.cloud.client("emr")
        added = emr.add_job_flow_steps(JobFlowId=self._ids["ClusterId"], Steps=[step])
        self._step = added["StepIds"][0]

    def done(self) -> bool:
        """Whether it has ended well."""
        time.sleep(0.2)
        emr = self.app.cloud.client("emr")
        status = emr.describe_step(**self._ids, StepId=self._step)["Step"]["Status"]
        if status["State"] == "FAILED":
            raise StageFailed(str(status.get("FailureDetails")))
        return status["State"] == "COMPLETED"

    def mend(self) -> None:
        """Nothing: the next step takes up where the last one stopped."""


class Starting:
    """A cluster like the app's is made, and gets its nodes."""

    roles = ("ServiceRole",)
    longest_s = 60.0

    def __init__(self, app: App) -> None:
        self.app = app
        emr = app.cloud.client("emr")
        cluster = emr.describe_cluster(ClusterId=app.stacks.outputs["ClusterId"])["Cluster"]
        self._like = {
            "ServiceRole": cluster["ServiceRole"],
            "JobFlowRole": cluster["Ec2InstanceAttributes"]["IamInstanceProfile"],
            "ReleaseLabel": cluster["ReleaseLabel"],
            "Tags": cluster["Tags"],
        }

    def begin(self) -> None:
        """Make it."""
        emr = self.app.cloud.client("emr")
        made = emr.run_job_flow(**cluster_request(Name="like", **self._like))
        self._id = made["JobFlowId"]

    def done(self) -> bool:
        """Whether it waits for steps."""
        emr = self.app.cloud.client("emr")
        state = emr.describe_cluster(ClusterId=self._id)["Cluster"]["Status"]["State"]
        if state == "TERMINATED_WITH_ERRORS":
            raise StageFailed(state)
        if state == "WAITING":
            emr.terminate_job_flows(JobFlowIds=[self._id])
        return state == "WAITING"

    def mend(self) -> None:
        """Nothing: the next cluster is another."""


class StageFailed(Exception):
    """A stage did not end well."""


Stage = Enriching | Delivering | Computing | Starting


def wait(what: Callable[[], Any]) -> Any:
    """Return what a function gives once it gives something."""
    return wait_until(what, within_s=LONGEST_S)


def run(app: App, stage: Stage, usual: Names) -> str:
    """Run a stage until it has ended well and done what it usually does; return what else came, empty if nothing."""
    ends = time.monotonic() + stage.longest_s
    app.cloud.cloud.decisions.clear()
    stage.begin()
    is_done = False
    while time.monotonic() < ends:
        try:
            is_done = is_done or stage.done()
        except StageFailed as failed:
            return f"fails: {str(failed)[:200]}"
        if is_done and usual <= app.seen():
            return ""
        if not isinstance(stage, Computing) and app.named():
            return "is denied"
        time.sleep(0.05)
    return f"has not ended, or lacks {usual - app.seen()}"


@pytest.fixture(scope="module")
def app(assembly: Path) -> Iterator[App]:
    with ServedCloud(iam="enforce", spark="installed") as cloud:
        yield App(cloud, deploy(cloud, assembly))


def without_each(app: App, stage: Stage, usual: Names, notes: Path) -> dict[tuple[str, str], str]:
    """Take away each action of the roles that a stage serves; return what lacked it, empty for nothing."""
    found: dict[tuple[str, str], str] = {}
    iam = app.cloud.client("iam")
    for role_arn, policy, document in list(own_policies(Ran(app.cloud, app.stacks, []))):
        role, name = short(role_arn), role_arn.rpartition("/")[2]
        if role not in stage.roles:
            continue
        for action, changed in mutations(document):
            if not changed["Statement"]:
                changed["Statement"] = [
                    {"Effect": "Allow", "Action": "sts:GetCallerIdentity", "Resource": "*"}
                ]
            place = {"RoleName": name, "PolicyName": policy}
            iam.put_role_policy(**place, PolicyDocument=json.dumps(changed))
            try:
                ended = run(app, stage, usual)
                named = any(fnmatchcase(a, action) for r, a in app.named() if r == role)
            finally:
                iam.put_role_policy(**place, PolicyDocument=json.dumps(document))
            if ended:
                stage.mend()
            verdict = "; ".join(filter(None, (ended, "named" if named else "")))
            found[role, action] = found.get((role, action)) or verdict
            with notes.open("a") as file:
                file.write(f"{role} {action}: {verdict or 'nothing'}\n")
    return found


@pytest.mark.parametrize("kind", [Enriching, Delivering, Computing, Starting])
def test_without_any_one_action_a_stage_fails_or_the_report_names_it(
    app: App, kind: type[Stage], tmp_path: Path
) -> None:
    stage = kind(app)
    # Twice: the first run has what only happens once, such as a log that is made.
    for _ in range(2):
        assert not run(app, stage, set()), app.named()
        # What comes after the end, such as a log; in later runs it is waited for.
        time.sleep(2)
        assert not app.named()
    usual = {name for name in app.seen() if name[0] in stage.roles}
    found = without_each(app, stage, usual, tmp_path / "mutations.txt")
    idle = {pair for pair, verdict in found.items() if not verdict}
    known = {pair for pair in JUSTIFIED if pair[0] in stage.roles}
    assert idle - known == set()
    assert known - idle == set(), "needed after all, or gone"


def test_every_role_of_the_app_serves_a_stage(app: App) -> None:
    roles = {short(role) for role, _, _ in own_policies(Ran(app.cloud, app.stacks, []))}
    assert roles == {r for kind in (Enriching, Delivering, Computing, Starting) for r in kind.roles}
