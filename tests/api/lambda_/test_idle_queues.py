"""Whether a queue of moto's is empty, told without asking it: as ReceiveMessage would find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cloud import ACCOUNT, REGION, InProcessCloud


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(Path(tmp_path_factory.mktemp("data"))) as running:
        running.cloud.moto.warm_up()
        yield running


@pytest.fixture
def sqs(cloud: InProcessCloud) -> Any:
    return cloud.client("sqs")


def is_empty(cloud: InProcessCloud, name: str) -> bool:
    return cloud.cloud.moto.memory.queue_is_empty(ACCOUNT, REGION, name)


def test_a_queue_is_empty_until_a_message_can_be_received(cloud: InProcessCloud, sqs: Any) -> None:
    url = sqs.create_queue(QueueName="work")["QueueUrl"]
    assert is_empty(cloud, "work")
    sqs.send_message(QueueUrl=url, MessageBody="late", DelaySeconds=900)
    assert is_empty(cloud, "work")
    sqs.send_message(QueueUrl=url, MessageBody="now")
    assert not is_empty(cloud, "work")
    message = sqs.receive_message(QueueUrl=url)["Messages"][0]
    assert message["Body"] == "now"
    assert is_empty(cloud, "work")
    handle = message["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
    assert not is_empty(cloud, "work")


@pytest.mark.parametrize(
    ("account", "region", "name"),
    [
        (ACCOUNT, REGION, "missing"),
        (ACCOUNT, "eu-west-3", "work"),
        ("999999999999", REGION, "work"),
    ],
)
def test_a_queue_that_is_not_there_is_missing(
    cloud: InProcessCloud, account: str, region: str, name: str
) -> None:
    with pytest.raises(LookupError):
        cloud.cloud.moto.memory.queue_is_empty(account, region, name)
