"""The fidelity report: every service's own table beside the properties of the deployed stacks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.aws.calls.http import HttpRequest
from headrace.moto import without_effect
from headrace.services.cloudcontrol.api import FIDELITY as CLOUDCONTROL
from headrace.services.cloudformation.fidelity import FIDELITY as CLOUDFORMATION
from headrace.services.emr.api import FIDELITY as EMR
from headrace.services.emr_serverless.api import FIDELITY as EMR_SERVERLESS
from headrace.services.firehose.fidelity import FIDELITY as FIREHOSE
from headrace.services.iam.answers import moto_tables
from headrace.services.kinesis.api import FIDELITY as KINESIS
from headrace.services.lambda_.api import FIDELITY as LAMBDA
from headrace.services.redshift_data.api import FIDELITY as REDSHIFT_DATA
from headrace.services.redshift_serverless.api import FIDELITY as REDSHIFT_SERVERLESS
from headrace.services.s3.api import FIDELITY as S3
from headrace.services.tagging.api import FIDELITY as TAGGING
from tests.support.cloud import InProcessCloud

TABLES = {
    "cloudcontrol": CLOUDCONTROL,
    "cloudformation": CLOUDFORMATION,
    "emr": EMR,
    "emr-serverless": EMR_SERVERLESS,
    "firehose": FIREHOSE,
    "kinesis": KINESIS,
    "lambda": LAMBDA,
    "redshift-data": REDSHIFT_DATA,
    "redshift-serverless": REDSHIFT_SERVERLESS,
    "resourcegroupstaggingapi": TAGGING,
    "s3": S3,
    **moto_tables(),
}
TEMPLATE = {
    "Resources": {
        "Stream": {
            "Type": "AWS::Kinesis::Stream",
            "Properties": {
                "ShardCount": 1,
                "StreamEncryption": {"EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"},
            },
        }
    }
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    folder: Path = tmp_path_factory.mktemp("fidelity")
    with InProcessCloud(folder / "data") as cloud:
        cfn = cloud.client("cloudformation")
        cfn.create_stack(StackName="s", TemplateBody=json.dumps(TEMPLATE))
        cfn.get_waiter("stack_create_complete").wait(
            StackName="s", WaiterConfig={"Delay": 0.05, "MaxAttempts": 400}
        )
        yield cloud


def report(cloud: InProcessCloud, query: str = "") -> list[dict[str, Any]]:
    answer = cloud.handle(HttpRequest("GET", "/_headrace/fidelity", query))
    assert answer.status == 200
    assert isinstance(answer.body, bytes)
    return json.loads(answer.body)


def test_the_report_has_every_line_of_every_services_table(cloud: InProcessCloud) -> None:
    rows = [row for row in report(cloud) if "service" in row]
    found = Counter(
        (row["service"], row["operation"], row["property"], row["level"]) for row in rows
    )
    declared = Counter(
        (service, operation, parameter, level)
        for service, table in TABLES.items()
        for operation, parameters in table.items()
        for parameter, level in parameters.items()
    )
    declared.update(
        (row.service, row.operation, row.member, "stored")
        for row in without_effect.ROWS
        if not row.is_ignored
    )
    assert found == declared
    assert {row["stack"] for row in rows} == {""}


def test_what_stacks_declare_stands_beside_it(cloud: InProcessCloud) -> None:
    rows = [row for row in report(cloud) if row["stack"] == "s"]
    assert [(row["resource"], row["property"], row["level"]) for row in rows] == [
        ("Stream", "StreamEncryption", "stored")
    ]


def test_a_stacks_own_report_has_nothing_of_services(cloud: InProcessCloud) -> None:
    rows = report(cloud, "stack=s")
    assert [row for row in rows if "service" in row] == []
    assert [row["resource"] for row in rows if row["stack"] == "s"] == ["Stream"]
    assert [row for row in report(cloud, "stack=other") if row["stack"]] == []
