"""What AWS was recorded to answer, S3 answers: every member of every answer. See `tests.conformance.scenarios`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.api.s3.helpers import S3Lab
from tests.conformance.scenarios import Scenario, World, cases, check_told, load, play
from tests.security.auth_lab import Guarded
from tests.support.clients import client_of
from tests.support.clock import FakeClock, ShiftedClock
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud

SCENARIOS = list(load(Path(__file__).parent / "s3"))


def is_alone(scenario: Scenario) -> bool:
    return all(
        step.get("service", "s3") == "s3" and "region" not in step for step in scenario["steps"]
    )


def is_signed(scenario: Scenario) -> bool:
    return any("presign" in step for step in scenario["steps"])


SIGNED = [one for one in SCENARIOS if is_signed(one)]
ALONE = [one for one in SCENARIOS if is_alone(one) and not is_signed(one)]
WITH_OTHERS = [one for one in SCENARIOS if not is_alone(one)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[S3Lab, Any]]:
    """One S3 and its client; each test gives it a data directory of its own."""
    lab = S3Lab(tmp_path_factory.mktemp("first"), FakeClock())
    yield lab, lab.client()
    lab.stop()


@pytest.mark.parametrize("scenario", cases(ALONE))
def test_answers_are_awss(shared: tuple[S3Lab, Any], tmp_path: Path, scenario: Scenario):
    lab, client = shared
    lab.clock = FakeClock()
    lab.move(tmp_path)
    world = World(
        "s3",
        lambda _, **style: lab.client(**style) if style else client,
        lab.clock.advance,
        lab.handle,
    )
    assert play(scenario, world) == []


class WholeCloud:
    """A cloud for scenarios that need more than S3; buckets are deleted between them."""

    def __init__(self, data_dir: Path) -> None:
        self._clock = ShiftedClock()
        self.cloud = InProcessCloud(data_dir, clock=self._clock)
        self.world = World("s3", self._client, self._clock.advance, self.cloud.handle)

    def _client(self, service: str, region: str = REGION) -> Any:
        return client_of(service, self._sized, account=ACCOUNT, region=region)

    def _sized(self, request: HttpRequest) -> HttpResponse:
        answer = self.cloud.handle(request)
        assert isinstance(answer.body, bytes)
        if all(name.lower() != "content-length" for name, _ in answer.headers):
            answer.headers.append(("Content-Length", str(len(answer.body))))
        return answer

    def delete_buckets(self) -> None:
        """Delete every bucket, whatever is in it."""
        s3 = self._client("s3")
        for bucket in s3.list_buckets()["Buckets"]:
            name = bucket["Name"]
            # The next scenario's rule must not hear of this one's end.
            s3.put_bucket_notification_configuration(Bucket=name, NotificationConfiguration={})
            found = s3.list_object_versions(Bucket=name)
            for one in (*found.get("Versions", ()), *found.get("DeleteMarkers", ())):
                s3.delete_object(Bucket=name, Key=one["Key"], VersionId=one["VersionId"])
            s3.delete_bucket(Bucket=name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeCloud]:
    whole = WholeCloud(tmp_path_factory.mktemp("whole") / "data")
    yield whole
    whole.cloud.stop()


@pytest.mark.parametrize("scenario", cases(WITH_OTHERS))
def test_answers_with_other_services_are_awss(whole: WholeCloud, scenario: Scenario):
    whole.delete_buckets()
    assert play(scenario, whole.world) == []


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    guarded = Guarded(tmp_path_factory.mktemp("signed"))
    yield guarded
    guarded.cloud.stop()


@pytest.mark.parametrize("scenario", cases(SIGNED))
def test_answers_to_signed_addresses_are_awss(guarded: Guarded, scenario: Scenario):
    def presign(call: str, params: dict[str, Any], step: dict[str, Any]) -> str:
        s3 = boto3.client(
            "s3",
            region_name=REGION,
            endpoint_url="http://s3.localhost:4566",
            aws_access_key_id=guarded.key.id,
            aws_secret_access_key=guarded.key.secret,
            config=Config(
                signature_version=step["signature"],
                s3={"addressing_style": step.get("addressing", "path")},
            ),
        )
        return s3.generate_presigned_url(call, Params=params, ExpiresIn=step.get("expires_s", 3600))

    world = World("s3", guarded.client, guarded.clock.advance, guarded.cloud.handle, presign)
    assert play(scenario, world) == []


def test_there_are_scenarios_enough_and_each_says_whence_it_is():
    check_told(SCENARIOS, 350)
