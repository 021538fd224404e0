"""SQS through moto: what other attributes do to a queue's policy."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.moto_lab import MotoLab

POLICY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": "*"}],
}


def test_a_queue_keeps_its_policy_when_another_attribute_is_set(tmp_path: Path):
    with MotoLab(tmp_path / "moto") as lab:
        sqs = lab.client("sqs")
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(POLICY)})

        sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "33"})
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        assert (found["VisibilityTimeout"], json.loads(found["Policy"])) == ("33", POLICY)

        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        assert "Policy" not in found
