"""DescribeAccountSettings, UpdateAccountSettings."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.api.kinesis.streams import Streams
from tests.support.clock import FakeClock
from tests.support.cloud import InProcessCloud

NOW_S = 1_700_000_000
DAY_S = 86_400


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def change(kinesis: Any, status: str) -> dict[str, Any]:
    answer = kinesis.update_account_settings(MinimumThroughputBillingCommitment={"Status": status})
    return dict(answer["MinimumThroughputBillingCommitment"])


def shown(kinesis: Any) -> dict[str, Any]:
    return dict(kinesis.describe_account_settings()["MinimumThroughputBillingCommitment"])


class TestSerialization:
    def test_the_answer_of_an_account_that_never_chose(self, streams: Streams):
        answer = {"MinimumThroughputBillingCommitment": {"Status": "DISABLED"}}
        assert streams.raw("DescribeAccountSettings", {}) == (200, answer)


class TestValidation:
    def test_the_commitment_must_be_given(self, streams: Streams):
        _, body = streams.raw("UpdateAccountSettings", {})
        assert body["message"] == (
            "1 validation error detected: Value null at 'minimumThroughputBillingCommitment' failed"
            " to satisfy constraint: Member must not be null"
        )

    def test_the_status_must_be_one_that_can_be_asked_for(self, streams: Streams):
        commitment = {"Status": "ENABLED_UNTIL_EARLIEST_ALLOWED_END"}
        _, body = streams.raw(
            "UpdateAccountSettings", {"MinimumThroughputBillingCommitment": commitment}
        )
        assert body["__type"] == "ValidationException"
        assert "Member must satisfy enum value set: [ENABLED, DISABLED]" in body["message"]


class TestBehaviour:
    def test_a_commitment_lasts_a_day_at_least(self, kinesis: Any, clock: FakeClock):
        enabled = {
            "Status": "ENABLED",
            "StartedAt": at(NOW_S),
            "EarliestAllowedEndAt": at(NOW_S + DAY_S),
        }
        assert change(kinesis, "ENABLED") == enabled
        assert shown(kinesis) == enabled
        clock.advance(3600)
        assert change(kinesis, "ENABLED") == enabled
        ending = change(kinesis, "DISABLED")
        assert ending == {**enabled, "Status": "ENABLED_UNTIL_EARLIEST_ALLOWED_END"}
        clock.advance(DAY_S - 3600)
        assert shown(kinesis) == {
            "Status": "DISABLED",
            "StartedAt": at(NOW_S),
            "EndedAt": at(NOW_S + DAY_S),
        }

    def test_after_that_day_it_ends_at_once(self, kinesis: Any, clock: FakeClock):
        change(kinesis, "ENABLED")
        clock.advance(2 * DAY_S)
        ended = change(kinesis, "DISABLED")
        assert (ended["Status"], ended["EndedAt"]) == ("DISABLED", at(NOW_S + 2 * DAY_S))

    def test_an_ending_one_goes_on_when_it_is_wanted_again(self, kinesis: Any):
        change(kinesis, "ENABLED")
        change(kinesis, "DISABLED")
        assert change(kinesis, "ENABLED")["Status"] == "ENABLED"

    def test_accounts_and_regions_choose_for_themselves(self, kinesis: Any, cloud: InProcessCloud):
        change(kinesis, "ENABLED")
        assert shown(cloud.client("kinesis", region="eu-west-1"))["Status"] == "DISABLED"
        assert shown(cloud.client("kinesis", account="111122223333"))["Status"] == "DISABLED"

    def test_settings_outlast_a_restart(
        self, kinesis: Any, cloud: InProcessCloud, clock: FakeClock
    ):
        before = change(kinesis, "ENABLED")
        cloud.stop()
        with InProcessCloud(cloud.cloud.config.data_dir, clock=clock) as again:
            assert shown(again.client("kinesis")) == before
