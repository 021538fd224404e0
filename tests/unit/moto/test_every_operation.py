"""No operation of moto's services fails inside moto, whatever a request leaves out or names that is not there.

Each operation of each service is asked with nothing, and with its required members alone, which name nothing that
exists: it answers, or refuses as AWS does, or says that headrace has no such operation.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import botocore.session
import pytest
from botocore.model import ListShape, MapShape, Shape, StructureShape

from tests.fuzz.sending import model_of, request_of
from tests.support.moto_lab import MotoLab

# Services that headrace owns whole: the lab has none of them.
OWNED = frozenset(
    {
        *("kinesis", "firehose", "lambda", "s3", "emr", "emr-serverless", "cloudformation"),
        *("cloudcontrol", "redshift-data", "redshift-serverless", "resourcegroupstaggingapi"),
    }
)
SERVICES = [
    name
    for name in botocore.session.get_session().get_available_services()
    if name not in OWNED
]  # fmt: skip
USED = frozenset(
    {
        *("amp", "athena", "cloudwatch", "dynamodb", "dynamodbstreams", "ecr", "ecs", "efs"),
        *("events", "glue", "kms", "logs", "pipes", "scheduler", "secretsmanager", "sns"),
        *("sqs", "ssm", "sso-admin", "stepfunctions", "timestream-write"),
    }
)
# Operations that fail inside moto by something that no pipeline uses; the list may only become shorter.
FAIL = frozenset(
    {
        *("cloudtrail:PutInsightSelectors", "managedblockchain:UpdateMember"),
        "autoscaling:TerminateInstanceInAutoScalingGroup",
        "route53resolver:ListResolverQueryLogConfigs",
        *("autoscaling:SetInstanceHealth", "ec2:DescribePrefixLists", "es:UpdateClone"),
        *("glue:PutSchemaVersionMetadata", "greengrass:CreateCoreDefinition"),
        *("greengrass:CreateDeviceDefinition", "greengrass:CreateFunctionDefinition"),
        *("greengrass:CreateResourceDefinition", "greengrass:CreateSubscriptionDefinition"),
        *("greengrass:CreateSubscriptionDefinitionVersion", "polly:PutLexicon"),
        *("sagemaker:CreateFeatureGroup", "servicecatalog:CreateProduct", "sesv2:SendEmail"),
    }
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoLab]:
    with MotoLab(Path(mkdtemp(dir=tmp_path_factory.mktemp("operations"))) / "data") as lab:
        yield lab


def made_up(shape: Shape, depth: int = 0) -> Any:
    """Return a value of a shape with its required members alone."""
    if isinstance(shape, StructureShape):
        required = [] if depth > 6 else shape.required_members
        return {name: made_up(shape.members[name], depth + 1) for name in required}
    if isinstance(shape, ListShape):
        return [made_up(shape.member, depth + 1)]
    if isinstance(shape, MapShape):
        return {}
    text = (shape.metadata.get("enum") or ["a" * max(1, shape.metadata.get("min") or 0)])[0]
    return {
        "integer": max(1, shape.metadata.get("min") or 0),
        "long": max(1, shape.metadata.get("min") or 0),
        "float": 1.0,
        "double": 1.0,
        "boolean": False,
        "blob": b"x",
        "timestamp": 1_700_000_000,
    }.get(shape.type_name, text)


@pytest.mark.parametrize(
    "service",
    [pytest.param(one, marks=[] if one in USED else [pytest.mark.slow]) for one in SERVICES],
)
def test_no_operation_fails_inside_moto(lab: MotoLab, service: str):
    model = model_of(service)
    failed: dict[str, str] = {}
    for name in model.operation_names:
        shape = model.operation_model(name).input_shape
        for params in ({}, {} if shape is None else made_up(shape)):
            request = request_of(service, name, params, Random(1), model.signing_name, damaged=0)
            answer = None if request is None else lab.handle(request)
            if answer is None or answer.status < 500:
                continue
            text = bytes(answer.body).decode(errors="replace")
            if answer.status != 501 or "cannot answer this" in text:
                failed[f"{service}:{name}"] = text[:300]
    assert {name: text for name, text in failed.items() if name not in FAIL} == {}
