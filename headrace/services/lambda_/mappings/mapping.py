"""Dataclasses for an event source mapping, its settings and its checkpoints."""

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
from headrace.services.lambda_.errors import STREAM_BATCH_SIZE
from headrace.services.lambda_.mappings.batch import FOREVER, FailureRules, Window

NOTHING_YET = "No records processed"
SQS_BATCH_SIZE = 10

Pinned = AtSequence | AfterSequence | TrimHorizon
# Losses of a shard that are told apart; older ones become one.
_MOST_LOSSES = 100
_BEYOND_ALL = 1 << 256


def first_unread(position: Position | None) -> int:
    """Return the lowest sequence number that a record at a position can have; beyond all numbers at a shard's end."""
    match position:
        case AtSequence(number):
            return int(number)
        case AfterSequence(number):
            return int(number) + 1
        case None:
            return _BEYOND_ALL
        case _:
            return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A mapping's settings in the form that its pollers use.

    Attributes:
        read_arn: the ARN of the stream or queue that is read.
        batch_size: the largest number of records in an invocation.
        window_s: how long to gather records before an invocation with fewer (the batching window).
        lanes: how many batches of a shard may be in flight; 1 with tumbling windows, whose state needs a single lane.
        tumbling_s: the length of the tumbling windows, or 0 without them.
        counts_events: whether the mapping's event counts are sent to CloudWatch.
        rules: how failures are treated.
        patterns: those of the filters. They are parsed when records are read, so that one that an earlier headrace took
            stops only its mapping.
    """

    read_arn: str
    batch_size: int
    window_s: float
    lanes: int
    tumbling_s: int
    counts_events: bool
    rules: FailureRules
    patterns: tuple[str, ...]


@dataclass(slots=True)
class Mapping:
    """A mapping between a stream and a function.

    Attributes:
        function_arn: the function's ARN, with the qualifier that the mapping was made with, if any.
        members: the other members of AWS's EventSourceMappingConfiguration that a request can set; see `change`.
        settings: what `members` mean for the pollers.
        starting_timestamp_ms: the time for the starting position AT_TIMESTAMP.
        last_result: AWS's LastProcessingResult; a restart resets it.
        last_failure: how the function failed last, and with which record; a restart resets it.
        expired: how many records the stream lost before the function was done with them; a restart resets it.
        noted_losses: of each shard, where the records of `expired` end that its checkpoint may not have passed yet: the
            last sequence number and the count of each loss; a restart resets it.
        handed: how many records the function got, each attempt counts; a restart resets it.
        dropped: how many given-up records (by retries or age) reached no failure destination; a restart resets it.
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
    last_failure: str = ""
    expired: int = 0
    noted_losses: dict[str, list[tuple[int, int]]] = field(
        default_factory=dict[str, list[tuple[int, int]]]
    )
    handed: int = 0
    dropped: int = 0
    settings: Settings = field(init=False)

    def __post_init__(self) -> None:
        self.change(self.members)

    def change(self, members: dict[str, Any]) -> None:
        """Replace the members that a request can set."""
        self.members = members
        self.settings = self._build_settings()

    def note_expired(self, shard_id: str, count: int, last_number: int) -> None:
        """Count records of a shard that expired, up to a sequence number."""
        losses = self.noted_losses.setdefault(shard_id, [])
        losses.append((last_number, count))
        if len(losses) > _MOST_LOSSES:
            (first, some), (second, others) = losses[:2]
            losses[:2] = [(max(first, second), some + others)]
        self.expired += count

    @property
    def arn(self) -> str:
        """The mapping's own ARN."""
        return make_arn("lambda", self.region, self.account, f"event-source-mapping:{self.uuid}")

    @property
    def service(self) -> str:
        """The service of the event source: `kinesis`, `dynamodb` or `sqs`."""
        return self.stream_arn.split(":")[2]

    @property
    def reads_table(self) -> bool:
        """Whether the event source is a DynamoDB stream."""
        return self.service == "dynamodb"

    @property
    def read_arn(self) -> str:
        """The ARN of the stream that is read; the ARN of a registered consumer begins with it."""
        return (
            self.stream_arn.partition("/consumer/")[0]
            if self.reads_as_consumer
            else self.stream_arn
        )

    @property
    def reads_as_consumer(self) -> bool:
        """Whether the event source is a registered consumer (enhanced fan-out)."""
        return self.service == "kinesis" and "/consumer/" in self.stream_arn

    def _build_settings(self) -> Settings:
        members = self.members
        default = SQS_BATCH_SIZE if self.service == "sqs" else STREAM_BATCH_SIZE
        criteria: list[dict[str, str]] = section(members, "FilterCriteria").get("Filters") or []
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
            patterns=tuple(one["Pattern"] for one in criteria if one.get("Pattern")),
        )

    @property
    def failure_destination(self) -> str | None:
        """The ARN of the failure destination, or None."""
        return section(self.members, "DestinationConfig", "OnFailure").get("Destination")

    def start(self) -> Position:
        """Return the starting position for a shard that existed when the mapping was made."""
        if self.starting_position == "LATEST":
            return Latest()
        if self.starting_position == "AT_TIMESTAMP" and self.starting_timestamp_ms is not None:
            return AtTimestamp(self.starting_timestamp_ms)
        return TrimHorizon()

    def output(self, state: str | None = None) -> EventSourceMappingConfiguration:
        """Return AWS's EventSourceMappingConfiguration. `state` replaces `Enabled` or `Disabled`."""
        output: dict[str, Any] = {
            "UUID": self.uuid,
            "EventSourceMappingArn": self.arn,
            "EventSourceArn": self.stream_arn,
            "FunctionArn": self.function_arn,
            "LastModified": moment(self.last_modified_ms),
            "State": state or ("Enabled" if self.enabled else "Disabled"),
            "BatchSize": self.settings.batch_size,
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
            output.pop("FilterCriteria", None)  # recorded: AWS leaves an empty list of filters out
        if self.starting_timestamp_ms is not None:
            output["StartingPositionTimestamp"] = moment(self.starting_timestamp_ms)
        return cast("EventSourceMappingConfiguration", output)


@dataclass(frozen=True, slots=True)
class LaneProgress:
    """The progress of each lane of a shard with `lanes` lanes; `done` maps a lane to a sequence number."""

    lanes: int
    done: dict[int, str]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The position from which a shard is read next, and the work that is done beyond it.

    Attributes:
        position: the position; None when the shard is closed and has been read to its end.
        marks: the lanes that are ahead of `position`; a restart does not repeat their work.
        window: the open tumbling window with its state.
    """

    position: Pinned | None
    marks: tuple[LaneProgress, ...] = ()
    window: Window | None = None
