"""Every member of Redshift Serverless is read back, or it is said why not. See `tests.support.read_back`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.services.redshift_serverless.actions import ACTIONS
from headrace.services.redshift_serverless.api import FIDELITY
from tests.support.cloud import InProcessCloud
from tests.support.read_back import Case, Read, check, never_given, not_read_back, overlooked

KEY = "arn:aws:kms:us-east-1:000000000000:key/0000"
ROLE = "arn:aws:iam::000000000000:role/r"
NAMESPACE: Read = ("GetNamespace", {"namespaceName": "lake"})
WORKGROUP: Read = ("GetWorkgroup", {"workgroupName": "work"})
MADE: list[Read] = [
    ("CreateNamespace", {"namespaceName": "lake"}),
    ("CreateWorkgroup", {"namespaceName": "lake", "workgroupName": "work", "baseCapacity": 8}),
]


def arn_of(kind: str, name: str) -> Any:
    """Return what asks a client for the ARN of a namespace or a workgroup."""
    get = f"get_{kind}"
    return lambda client: getattr(client, get)(**{f"{kind}Name": name})[kind][f"{kind}Arn"]


def tags_of(kind: str, name: str) -> Read:
    arn = arn_of(kind, name)
    return "ListTagsForResource", lambda client: {"resourceArn": arn(client)}


OF_NAMESPACES: dict[str, Any] = {
    "namespaceName": "lake",
    "adminUsername": "boss",
    "adminUserPassword": "Secret123",
    "defaultIamRoleArn": ROLE,
    "iamRoles": [ROLE],
    "kmsKeyId": KEY,
    "logExports": ["userlog"],
}
OF_WORKGROUPS: dict[str, Any] = {
    "workgroupName": "work",
    "baseCapacity": 16,
    "maxCapacity": 64,
    "configParameters": [{"parameterKey": "datestyle", "parameterValue": "ISO"}],
    "ipAddressType": "ipv4",
    "subnetIds": ["subnet-1"],
    "securityGroupIds": ["sg-1"],
    "trackName": "current",
    "pricePerformanceTarget": {"level": 50, "status": "ENABLED"},
}
PASSWORD = {"adminUserPassword": "a secret: no read shows it"}
MANAGED = dict.fromkeys(
    ("manageAdminPassword", "adminPasswordSecretKmsKeyId"), "a password is given"
)
TABLES = dict.fromkeys(
    ("s3TableAction", "s3TableGranularity", "s3TableKmsKeyId", "s3TableNames"), "refused by name"
)
CASES = [
    Case(
        "CreateNamespace",
        [NAMESPACE, tags_of("namespace", "lake")],
        given={**OF_NAMESPACES, "dbName": "db"},
        without=MANAGED,
        unseen=PASSWORD,
    ),
    Case(
        "UpdateNamespace",
        [NAMESPACE],
        before=MADE,
        given=OF_NAMESPACES,
        without={**MANAGED, **TABLES},
        unseen=PASSWORD,
    ),
    Case(
        "CreateWorkgroup",
        [WORKGROUP, tags_of("workgroup", "work")],
        before=MADE[:1],
        given={**OF_WORKGROUPS, "namespaceName": "lake", "port": 5431},
    ),
    Case(
        "UpdateWorkgroup",
        [WORKGROUP],
        before=MADE,
        given=OF_WORKGROUPS,
        without={"port": "refused by name"},
    ),
    Case(
        "TagResource",
        [tags_of("namespace", "lake")],
        before=MADE[:1],
        given={"resourceArn": arn_of("namespace", "lake")},
        unseen={"resourceArn": "it is asked for"},
    ),
]


@pytest.fixture
def serverless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with InProcessCloud(tmp_path_factory.mktemp("serverless") / "data") as cloud:
        yield cloud.client("redshift-serverless")


@pytest.mark.slow  # each workgroup has a PostgreSQL to stop
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.operation)
def test_what_a_call_takes_is_read_back(serverless: Any, case: Case):
    assert check("redshift-serverless", case, serverless, FIDELITY) == []


def test_every_call_that_keeps_something_is_read_back():
    assert not_read_back("redshift-serverless", ACTIONS, CASES) == []
    assert overlooked("redshift-serverless", CASES) == []
    never = {name.partition(".")[2] for name in never_given("redshift-serverless", CASES)}
    assert never == {*MANAGED, *TABLES, "port"}
