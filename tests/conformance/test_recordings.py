"""Every recording of AWS's answers is replayed by a scenario, or is told with the reason why not."""

from __future__ import annotations

import pytest

from scripts.recordings_page import left_out, recordings, replayed

RECORDED = recordings()
REPLAYED = replayed()
# Recorded elsewhere than in the files that are counted.
BESIDE = {
    "s3/test_s3.json": {
        "TestS3PresignedPost::test_s3_presigned_post_success_action_redirect",
        "TestS3PresignedPost::test_s3_presigned_post_success_action_status_201_response",
        "TestS3StaticWebsiteHosting::test_routing_rules_order",
        "TestS3StaticWebsiteHosting::test_website_hosting_redirect_all",
    }
}


@pytest.mark.parametrize("file", RECORDED)
def test_what_is_replayed_and_what_is_not_is_all_there_is(file: str):
    played = REPLAYED.get(file, set()) - BESIDE.get(file, set())
    assert len(played) + left_out(RECORDED[file]).total() == RECORDED[file]["recorded"]


def test_what_is_said_to_be_left_out_is_not_replayed():
    told = {
        (file, name): count
        for file, one in RECORDED.items()
        for names in one["not replayed"].values()
        if not isinstance(names, int)
        for name, count in names.items()
    }
    wrong = [
        place
        for place, count in told.items()
        if count == 1 and place[1] in REPLAYED.get(place[0], ())
    ]
    assert wrong == []
