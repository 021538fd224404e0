"""One event source mapping and its checkpoints, as records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from headrace.aws.shapes.lambda_ import EventSourceMappingConfiguration
from headrace.core.arn import make_arn
from headrace.core.ports import (
    AfterSequence,
    AtSequence,
    AtTimestamp,
    Latest,
    Position,
    TrimHorizon,
)
from headrace.core.values import moment, section
from headrace.services.lambda_.limits import STREAM_BATCH_SIZE
from headrace.services.lambda_.mappings.batch import FOREVER, FailureRules
from headrace.services.lambda_.mappings.filters import Filter
from headrace.services.lambda_.mappings.window import Window

NOTHING_YET = "No records processed"
SQS_BATCH_SIZE = 10

Pinned = AtSequence | AfterSequence | TrimHorizon


# Not frozen, which would double the price of making one in each step; nobody changes it.
@dataclass(slots=True, kw_only=True)
class Settings:
    """A mapping's members as its pollers use them.

    Attributes:
        read_arn: the stream that is read, or the queue.
        batch_size: the most records in an invocation.
        window_s: how long to gather records before an invocation with fewer.
        lanes: how many batches of a shard may be in flight; a tumbling window's state belongs to one.
        tumbling_s: the length of its tumbling windows, 0 without them.
        counts_events: whether CloudWatch gets the mapping's event counts.
        rules: how failures are treated.
    """

    read_arn: str
    batch_size: int
    window_s: float
    lanes: int
    tumbling_s: int
    counts_events: bool
    rules: FailureRules


class SettingsOf:
    """The settings of a mapping as they are now, for a poller, which reads them in each step.

    They are made anew when the mapping has other members: an update replaces these whole.
    """

    def __init__(self, mapping: Mapping) -> None:
        self._mapping = mapping
        self._of, self._settings = mapping.members, mapping.settings()

    def now(self) -> Settings:
        """Return them."""
        members = self._mapping.members
        if members is not self._of:
            self._of, self._settings = members, self._mapping.settings()
        return self._settings


@dataclass(slots=True)
class Mapping:
    """A mapping between a stream and a function.

    Attributes:
        function_arn: with the qualifier that the mapping was made with, if any.
        members: the rest of AWS's EventSourceMappingConfiguration that can be set.
        starting_timestamp_ms: for AT_TIMESTAMP.
        last_result: AWS's LastProcessingResult; not kept over a restart.
        expired: how many records the stream lost before the function was done with them; not kept over a restart.
        dropped: how many it gave up, by retries or age, that reached no failure destination; not kept over a restart.
    """

    uuid: str
    account: str
    region: str
    function_arn: str
    stream_arn: str
    starting_position: str
    starting_timestamp_ms: int | None
    enabled: bool
    last_modified_ms: int
    members: dict[str, Any] = field(default_factory=dict[str, Any])
    tags: dict[str, str] = field(default_factory=dict[str, str])
    last_result: str = NOTHING_YET
    expired: int = 0
    dropped: int = 0

    @property
    def arn(self) -> str:
        """The mapping's own ARN."""
        return make_arn("lambda", self.region, self.account, f"event-source-mapping:{self.uuid}")

    @property
    def service(self) -> str:
        """The service of its source: `kinesis`, `dynamodb` or `sqs`."""
        return self.stream_arn.split(":")[2]

    @property
    def reads_table(self) -> bool:
        """Whether its source is the stream of a DynamoDB table."""
        return self.service == "dynamodb"

    @property
    def read_arn(self) -> str:
        """The ARN of the stream that is read, which a registered consumer's ARN begins with."""
        return (
            self.stream_arn.partition("/consumer/")[0]
            if self.reads_as_consumer
            else self.stream_arn
        )

    @property
    def reads_as_consumer(self) -> bool:
        """Whether its source is a registered consumer (enhanced fan-out)."""
        return self.service == "kinesis" and "/consumer/" in self.stream_arn

    def settings(self) -> Settings:
        """Return its members as pollers use them."""
        members = self.members
        default = SQS_BATCH_SIZE if self.service == "sqs" else STREAM_BATCH_SIZE
        tumbling_s = int(members.get("TumblingWindowInSeconds", 0))
        return Settings(
            read_arn=self.read_arn,
            batch_size=int(members.get("BatchSize", default)),
            window_s=float(members.get("MaximumBatchingWindowInSeconds", 0)),
            lanes=1 if tumbling_s else int(members.get("ParallelizationFactor", 1)),
            tumbling_s=tumbling_s,
            counts_events="EventCount" in (section(members, "MetricsConfig").get("Metrics") or ()),
            rules=FailureRules(
                maximum_retries=members.get("MaximumRetryAttempts", FOREVER),
                maximum_age_s=members.get("MaximumRecordAgeInSeconds", FOREVER),
                bisect=members.get("BisectBatchOnFunctionError", False),
                report_item_failures="ReportBatchItemFailures"
                in members.get("FunctionResponseTypes", ()),
            ),
        )

    def filters(self) -> tuple[Filter, ...]:
        """Return the filters; they were checked when they were set."""
        wanted: list[dict[str, str]] = section(self.members, "FilterCriteria").get("Filters") or []
        return tuple(Filter.parse(one["Pattern"]) for one in wanted if one.get("Pattern"))

    @property
    def failure_destination(self) -> str | None:
        """The ARN of the failure destination, when there is one."""
        return section(self.members, "DestinationConfig", "OnFailure").get("Destination")

    def start(self) -> Position:
        """Return where a shard that existed when the mapping was made is read from."""
        if self.starting_position == "LATEST":
            return Latest()
        if self.starting_position == "AT_TIMESTAMP" and self.starting_timestamp_ms is not None:
            return AtTimestamp(self.starting_timestamp_ms)
        return TrimHorizon()

    def output(self, state: str | None = None) -> EventSourceMappingConfiguration:
        """Return AWS's EventSourceMappingConfiguration; `state` overrides the lasting one."""
        output: dict[str, Any] = {
            "UUID": self.uuid,
            "EventSourceMappingArn": self.arn,
            "EventSourceArn": self.stream_arn,
            "FunctionArn": self.function_arn,
            "LastModified": moment(self.last_modified_ms),
            "State": state or ("Enabled" if self.enabled else "Disabled"),
            "BatchSize": self.settings().batch_size,
            "MaximumBatchingWindowInSeconds": 0,
            "FunctionResponseTypes": [],
        }
        if self.service != "sqs":
            output |= {
                "StartingPosition": self.starting_position,
                "LastProcessingResult": self.last_result,
                "StateTransitionReason": "User action",
                "ParallelizationFactor": 1,
                "MaximumRecordAgeInSeconds": FOREVER,
                "MaximumRetryAttempts": FOREVER,
                "BisectBatchOnFunctionError": False,
                "TumblingWindowInSeconds": 0,
                "DestinationConfig": {"OnFailure": {}},
            }
        else:
            output["StateTransitionReason"] = "USER_INITIATED"
        output |= self.members
        if not section(self.members, "FilterCriteria").get("Filters"):
            output.pop("FilterCriteria", None)  # recorded: no filters are not shown
        if self.starting_timestamp_ms is not None:
            output["StartingPositionTimestamp"] = moment(self.starting_timestamp_ms)
        return cast("EventSourceMappingConfiguration", output)


@dataclass(frozen=True, slots=True)
class Marks:
    """How far each lane of a shard got while there were `lanes` of them: lane to sequence number."""

    lanes: int
    done: dict[int, str]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a shard is read from next, and what is done beyond that place.

    Attributes:
        position: None when the shard is closed and read to its end.
        marks: lanes that are ahead of `position`; a restart does not repeat what they have done.
        window: the open tumbling window with its state.
    """

    position: Pinned | None
    marks: tuple[Marks, ...] = ()
    window: Window | None = None
