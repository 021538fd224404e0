"""Applications: their states, and what is refused."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.api.emr_serverless.conftest import Lab
from tests.support.cloud import InProcessCloud


def refused(code: str, status: int) -> object:
    return pytest.raises(ClientError, check=lambda error: _is(error, code, status))


def _is(error: ClientError, code: str, status: int) -> bool:
    response = error.response
    return (
        response["Error"]["Code"] == code
        and response["ResponseMetadata"]["HTTPStatusCode"] == status
        and bool(response["Error"]["Message"])
    )


def test_an_application_is_made_started_stopped_and_ended(lab: Lab) -> None:
    made = lab.application(maximumCapacity={"cpu": "4 vCPU", "memory": "16 GB"}, tags={"a": "b"})
    found = lab.emr.get_application(applicationId=made)["application"]
    assert found["state"] == "CREATED"
    assert found["type"] == "Spark"
    assert found["tags"] == {"a": "b"}
    assert found["maximumCapacity"]["cpu"] == "4 vCPU"
    assert found["arn"].endswith(f":/applications/{made}")
    assert found["autoStopConfiguration"] == {"enabled": True, "idleTimeoutMinutes": 15}
    lab.emr.start_application(applicationId=made)
    assert lab.state(made) == "STARTED"
    with refused("ValidationException", 400):
        lab.emr.delete_application(applicationId=made)
    lab.emr.stop_application(applicationId=made)
    assert lab.state(made) == "STOPPED"
    lab.emr.delete_application(applicationId=made)
    listed = lab.emr.list_applications(states=["TERMINATED"])["applications"]
    assert [(a["id"], a["state"]) for a in listed] == [(made, "TERMINATED")]
    assert lab.emr.list_applications(states=["CREATED", "STARTED"])["applications"] == []


def test_an_application_changes_only_while_it_is_at_rest(lab: Lab) -> None:
    made = lab.application()
    off = {"enabled": False}
    changed = lab.emr.update_application(
        applicationId=made, clientToken="x", autoStopConfiguration=off
    )
    assert changed["application"]["autoStopConfiguration"] == off
    lab.emr.start_application(applicationId=made)
    with refused("ValidationException", 400):
        lab.emr.update_application(applicationId=made, clientToken="x", autoStartConfiguration=off)


def test_a_client_token_makes_one_application(lab: Lab) -> None:
    request = {"name": "a", "releaseLabel": "emr-7.9.0", "type": "SPARK", "clientToken": "same"}
    first = lab.emr.create_application(**request)["applicationId"]
    assert lab.emr.create_application(**request)["applicationId"] == first
    with refused("ConflictException", 409):
        lab.emr.create_application(**{**request, "releaseLabel": "emr-7.8.0"})


def test_what_is_not_there_is_not_found(lab: Lab) -> None:
    with refused("ResourceNotFoundException", 404):
        lab.emr.get_application(applicationId="00nothing")
    arn = "arn:aws:emr-serverless:us-east-1:000000000000:/applications/00nothing"
    with refused("ResourceNotFoundException", 404):
        lab.emr.list_tags_for_resource(resourceArn=arn)
    made = lab.application()
    with refused("ResourceNotFoundException", 404):
        lab.emr.get_job_run(applicationId=made, jobRunId="00nothing")


@pytest.mark.parametrize(
    "request_", [{"type": "FLINK"}, {"releaseLabel": ""}, {"name": "a b"}, {"clientToken": None}]
)
def test_bad_applications_are_refused(lab: Lab, request_: dict[str, object]) -> None:
    good = {"name": "a", "releaseLabel": "emr-7.9.0", "type": "SPARK", "clientToken": "t"}
    with refused("ValidationException", 400):
        lab.emr.create_application(**{**good, **request_})


@pytest.mark.parametrize(
    ("scheduler", "words"),
    [
        ({"maxConcurrentRuns": 0}, "maxConcurrentRuns must be between 1 and 1000."),
        ({"maxConcurrentRuns": 1001}, "maxConcurrentRuns must be between 1 and 1000."),
        ({"queueTimeoutMinutes": 14}, "queueTimeoutMinutes must be between 15 and 720."),
        ({"queueTimeoutMinutes": 721}, "queueTimeoutMinutes must be between 15 and 720."),
    ],
)
def test_a_scheduler_outside_the_documented_ranges_is_refused(
    lab: Lab, scheduler: dict[str, int], words: str
) -> None:
    made = lab.application(schedulerConfiguration={"maxConcurrentRuns": 1000})
    with pytest.raises(ClientError, match=words):
        lab.application(schedulerConfiguration=scheduler)
    with pytest.raises(ClientError, match=words):
        lab.emr.update_application(
            applicationId=made, clientToken="u", schedulerConfiguration=scheduler
        )


def test_lists_come_in_pages_newest_first(lab: Lab) -> None:
    made = [lab.application() for _ in range(3)]
    pages = lab.emr.get_paginator("list_applications").paginate(PaginationConfig={"PageSize": 2})
    listed = [[a["id"] for a in page["applications"]] for page in pages]
    assert [len(page) for page in listed] == [2, 1]
    assert sorted(itertools.chain(*listed)) == sorted(made)
    with refused("ValidationException", 400):
        lab.emr.list_applications(nextToken="nonsense")


def test_tags_of_applications_and_of_job_runs(lab: Lab) -> None:
    made = lab.application()
    run_id = lab.start(made, "true", tags={"one": "1"})
    arn = lab.ended(made, run_id)["arn"]
    lab.emr.tag_resource(resourceArn=arn, tags={"two": "2", "three": "3"})
    lab.emr.untag_resource(resourceArn=arn, tagKeys=["one", "three"])
    assert lab.emr.list_tags_for_resource(resourceArn=arn)["tags"] == {"two": "2"}
    assert lab.run(made, run_id)["tags"] == {"two": "2"}


def test_applications_are_there_again_after_a_restart(data_dir: Path) -> None:
    with InProcessCloud(data_dir) as cloud:
        made = Lab(cloud.client("emr-serverless"), None).application(tags={"a": "b"})
    with InProcessCloud(data_dir) as cloud:
        lab = Lab(cloud.client("emr-serverless"), None)
        assert lab.state(made) == "CREATED"


def test_accounts_and_regions_are_apart(data_dir: Path) -> None:
    with InProcessCloud(data_dir) as cloud:
        made = Lab(cloud.client("emr-serverless"), None).application()
        other = Lab(cloud.client("emr-serverless", region="eu-west-1"), None)
        with refused("ResourceNotFoundException", 404):
            other.state(made)
        assert other.emr.list_applications()["applications"] == []


@pytest.mark.parametrize("label", ["emr-6.5.0", "emr-6.8.1", "emr-7.1.7", "spark"])
def test_a_release_that_emr_serverless_has_not_is_refused(lab: Lab, label: str) -> None:
    # Documented: release-versions.html, from 6.6.0 on and no patch releases. The sentence is assumed.
    with pytest.raises(ClientError) as raised:
        lab.emr.create_application(name="a", releaseLabel=label, type="SPARK")
    assert raised.value.response["Error"]["Code"] == "ValidationException"
    assert raised.value.response["Error"]["Message"] == f"Unsupported release label {label}"
    made = lab.emr.create_application(name="a", releaseLabel="emr-spark-8.0-preview", type="SPARK")
    with pytest.raises(ClientError, match="Unsupported release label"):
        lab.emr.update_application(
            applicationId=made["applicationId"], releaseLabel=label, clientToken="t"
        )
