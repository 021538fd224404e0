"""SQS through moto: which values of a queue's attributes are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import MotoLab


def test_attributes_out_of_bounds_are_refused(tmp_path: Path):
    """Documented: docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html."""
    refused = {
        "DelaySeconds": "901",
        "KmsDataKeyReusePeriodSeconds": "59",
        "MaximumMessageSize": "1023",
        "MessageRetentionPeriod": "1209601",
        "ReceiveMessageWaitTimeSeconds": "21",
        "VisibilityTimeout": "-1",
    }
    with MotoLab(tmp_path / "moto") as lab:
        sqs = lab.client("sqs")
        for name, value in refused.items():
            with pytest.raises(ClientError, match=f"Invalid value for the parameter {name}."):
                sqs.create_queue(QueueName="q", Attributes={name: value})
        url = sqs.create_queue(QueueName="q", Attributes={"DelaySeconds": "900"})["QueueUrl"]
        with pytest.raises(ClientError, match="InvalidAttributeValue"):
            sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "soon"})
