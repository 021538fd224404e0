"""Looks, decides and acts: one step of the policy on one stream, on AWS as on headrace."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import Any

from headrace.client.clock import Clock, SystemClock
from headrace.client.streams import name_member
from headrace.shards.loads import StreamLoad
from headrace.shards.policy import (
    LEAST_RESHARD_S,
    Action,
    Decision,
    Merge,
    Policy,
    Resize,
    Split,
    name_of,
)
from headrace.shards.sampling import Sampler
from headrace.shards.settings import Settings

_LOG = logging.getLogger("headrace.shards")
_LONGEST_PAUSE_S = 1.0
# AWS reshards a stream step by step: these mean "not now".
_LATER = frozenset({"ResourceInUseException", "LimitExceededException"})
# Somebody else has resharded since the look.
_CHANGED = frozenset({"InvalidArgumentException", "ResourceNotFoundException"})


@dataclass(frozen=True, slots=True)
class Report:
    """What a step saw and did.

    Attributes:
        load: what it saw; None: the stream was being changed, and nothing was done.
        decision: what the policy said.
        done: the actions that the stream took.
    """

    load: StreamLoad | None = None
    decision: Decision = field(default_factory=Decision)
    done: tuple[Action, ...] = ()


class Resharder:
    """Splits, merges and resizes one stream, and waits until it is ACTIVE again."""

    def __init__(self, kinesis: Any, name_member: dict[str, str], clock: Clock) -> None:
        """Take a client of boto3, and the member that names the stream."""
        self._kinesis, self._name_member, self._clock = kinesis, name_member, clock

    def act(self, action: Action) -> None:
        """Ask for an action. Raises botocore's errors."""
        kinesis, name = self._kinesis, self._name_member
        match action:
            case Split():
                at = str(action.at)
                kinesis.split_shard(**name, ShardToSplit=action.shard_id, NewStartingHashKey=at)
            case Merge():
                pair = {
                    "ShardToMerge": action.shard_id,
                    "AdjacentShardToMerge": action.adjacent_id,
                }
                kinesis.merge_shards(**name, **pair)
            case Resize():
                kinesis.update_shard_count(
                    **name, TargetShardCount=action.count, ScalingType="UNIFORM_SCALING"
                )

    def wait_until_active(self, within_s: float) -> bool:
        """Wait until the stream takes the next action; return whether it does. Raises botocore's errors."""
        deadline_s = self._clock.monotonic_s() + within_s
        pause_s = LEAST_RESHARD_S
        while True:
            answer = self._kinesis.describe_stream_summary(**self._name_member)
            if answer["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE":
                return True
            left_s = deadline_s - self._clock.monotonic_s()
            if left_s <= 0:
                return False
            pause(self._clock, min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


class Scaler:
    """The policy at work on one stream. One thread at a time."""

    def __init__(
        self,
        kinesis: Any,
        stream: str,
        settings: Settings,
        *,
        sample_s: float = 2.0,
        cloudwatch: Any = None,
        clock: Clock | None = None,
    ) -> None:
        """Take a client of boto3, and a stream's name or ARN; see `Sampler` for the rest."""
        name = name_member(stream)
        self._stream, self._clock = stream, clock or SystemClock()
        sample_s = min(sample_s, settings.period_s)
        self._sampler = Sampler(
            kinesis, name, self._clock, sample_s=sample_s, cloudwatch=cloudwatch
        )
        self._resharder = Resharder(kinesis, name, self._clock)
        self._policy = Policy(settings)
        self._is_on_demand_said = False

    def step(self) -> Report:
        """Look, decide and act once; it takes at most a period longer than the last request.

        What AWS does not take now is logged and left to the next step. Raises botocore's errors that will not pass,
        such as a stream or a permission that is missing.
        """
        began_s, period_s = self._clock.monotonic_s(), self._policy.settings.period_s
        summary = self._sampler.summary()
        if summary["StreamStatus"] != "ACTIVE":
            return Report()
        if summary.get("StreamModeDetails", {}).get("StreamMode") == "ON_DEMAND":
            raise ValueError(f"{self._stream} is on demand: AWS alone changes its shards")
        load = self._sampler.look()
        decision = self._policy.decide(self._clock.monotonic_s(), load)
        for advice in decision.advice:
            _LOG.warning("%s: %s", self._stream, advice.sentence)
        done: list[Action] = []
        for action in decision.actions:
            left_s = began_s + period_s - self._clock.monotonic_s()
            if (done and left_s <= 0) or not self._take(action, max(left_s, 1.0)):
                break
            done.append(action)
        return Report(load, decision, tuple(done))

    def _take(self, action: Action, within_s: float) -> bool:
        """Act, and wait until it is done; return whether another action may follow."""
        from botocore.exceptions import ClientError

        began_s = self._clock.monotonic_s()
        try:
            self._resharder.act(action)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code")
            if code not in _LATER and code not in _CHANGED:
                raise
            _LOG.warning(
                "%s: %s is left to the next look: %s", self._stream, name_of(action), error
            )
            return False
        _LOG.info("%s: %s", self._stream, name_of(action))
        is_active = self._resharder.wait_until_active(within_s)
        self._policy.note_reshard(self._clock.monotonic_s() - began_s)
        # Five calls per second and account; others reshard too.
        pause(self._clock, LEAST_RESHARD_S)
        return is_active


def pause(clock: Clock, seconds: float) -> None:
    """Wait."""
    condition = threading.Condition()
    with condition:
        clock.wait(condition, seconds)
