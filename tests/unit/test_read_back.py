"""What a call takes and nothing shows is found; so is an explanation that none needs."""

from __future__ import annotations

from typing import Any

from tests.support.read_back import Case, differences, never_given, params_of

CASE = Case("CreateStream", [], given={"ShardCount": 3})


def told(case: Case, answer: dict[str, Any], level: Any = "enforced") -> list[str]:
    return differences(case, {"ShardCount": 3}, [answer], {"CreateStream": {"ShardCount": level}})


def test_a_member_that_is_shown_is_explained():
    assert told(CASE, {"Stream": [{"ShardCount": 3}]}) == []


def test_a_member_that_is_not_shown_is_told():
    assert told(CASE, {"ShardCount": 4}) == ["ShardCount = 3 is enforced, and not seen"]
    assert told(CASE, {}, "stored") == ["ShardCount = 3 is stored, and not seen"]


def test_what_the_table_ignores_needs_no_more():
    assert told(CASE, {}, "ignored") == []
    assert told(CASE, {"ShardCount": 3}, "ignored") == ["ShardCount is shown: it is not ignored"]


def test_explanations_must_be_needed():
    explained = Case("CreateStream", [], unseen={"ShardCount": "because"})
    assert told(explained, {}) == []
    assert told(explained, {"ShardCount": 3}) == ["ShardCount is seen, though said to be unseen"]
    assert told(explained, {}, "ignored") == [
        "ShardCount is ignored by the table, and needs no reason"
    ]


def test_answers_may_have_another_name_and_another_form_of_tags():
    named = Case("CreateStream", [], named={"ShardCount": "OpenShardCount"})
    assert told(named, {"OpenShardCount": 3}) == []
    tags = {"Tags": {"a": "b"}}
    assert differences(CASE, tags, [{"Tags": [{"Key": "a", "Value": "b"}]}], {}) == []
    assert len(differences(CASE, tags, [{"Tags": []}], {})) == 1


def test_every_member_of_the_model_is_given():
    made = params_of("kinesis", Case("CreateStream", [], without={"Tags": "here"}))
    assert sorted(made) == [
        "MaxRecordSizeInKiB",
        "RecordDistributionStrategy",
        "ShardCount",
        "StreamModeDetails",
        "StreamName",
        "WarmThroughputMiBps",
    ]
    assert made["StreamModeDetails"] == {"StreamMode": "ON_DEMAND"}
    assert never_given("kinesis", [Case("CreateStream", [], without={"Tags": "here"})]) == [
        "CreateStream.Tags"
    ]
