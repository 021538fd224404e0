"""Who may, may; who may not gets AWS's refusal: each way to sign, by each kind of caller, at each service.

The cloud runs with `--auth --iam enforce`. Codes and statuses: IAM's APIReference/CommonErrors.html, each service's
common errors and S3's ErrorResponses.html (documented); SNS's, EC2's and SQS's own codes as users report them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.awsrequest import AWSRequest

from tests.security.auth_lab import Guarded
from tests.security.signing_lab import Refusal, SigningLab, said, unsigned_request


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a service; `family` tells the form of its errors, `scope` what its signatures name.

    `is_of_account`: its resource belongs to the cloud's own account, so that callers of others are denied.
    """

    service: str
    method: str
    family: str
    scope: str = ""
    params: dict[str, Any] = field(default_factory=dict[str, Any])
    is_of_account: bool = False

    @property
    def signing_name(self) -> str:
        """The service that signatures name."""
        return self.scope or self.service


# One operation of each service that headrace owns, and of each of moto's whose permissions it knows.
OPERATIONS = [
    Operation("kinesis", "list_streams", "json"),
    Operation("firehose", "list_delivery_streams", "json"),
    Operation("s3", "list_buckets", "s3"),
    Operation("lambda", "list_functions", "rest-json"),
    Operation("emr", "list_clusters", "json", "elasticmapreduce"),
    Operation("emr-serverless", "list_applications", "rest-json"),
    Operation("cloudformation", "describe_stacks", "query"),
    Operation("cloudcontrol", "list_resource_requests", "json", "cloudcontrolapi"),
    Operation("resourcegroupstaggingapi", "get_resources", "json", "tagging"),
    Operation("redshift-data", "list_statements", "json"),
    Operation("redshift-serverless", "list_workgroups", "json"),
    Operation("athena", "list_work_groups", "json"),
    Operation("cloudwatch", "list_metrics", "json", "monitoring"),
    Operation("dynamodb", "list_tables", "json"),
    Operation("dynamodbstreams", "list_streams", "json", "dynamodb"),
    Operation("ecr", "describe_repositories", "json"),
    Operation("es", "list_domain_names", "rest-json"),
    Operation("events", "list_rules", "json"),
    Operation("glue", "get_databases", "json"),
    Operation("iam", "list_users", "query"),
    Operation("kms", "list_keys", "json"),
    Operation("logs", "describe_log_groups", "json"),
    Operation("opensearch", "list_domain_names", "rest-json", "es"),
    Operation("opensearchserverless", "list_collections", "json", "aoss"),
    Operation("pipes", "list_pipes", "rest-json"),
    Operation("redshift", "describe_clusters", "query"),
    Operation("scheduler", "list_schedules", "rest-json"),
    Operation("secretsmanager", "list_secrets", "json"),
    Operation("sns", "list_topics", "sns"),
    Operation("sqs", "list_queues", "sqs"),
    Operation("ssm", "describe_parameters", "json"),
    Operation("stepfunctions", "list_state_machines", "json", "states"),
    Operation(
        "sts",
        "assume_role",
        "query",
        params={"RoleArn": "arn:aws:iam::000000000000:role/idle", "RoleSessionName": "s2"},
        is_of_account=True,
    ),
]
MAY = (
    "root",
    "user with the policy",
    "role session",
    "another account's user",
    "another account's root",
)
MAY_NOT = ("user without a policy", "role session without a policy")
NOBODY = ("expired session", "unknown key", "wrong secret", "session without its token", "unsigned")

_JSON: dict[str, Refusal] = {
    "denied": ("AccessDeniedException", 400),
    "unsigned": ("MissingAuthenticationTokenException", 400),
    "unknown key": ("UnrecognizedClientException", 400),
    "session without its token": ("UnrecognizedClientException", 400),
    "expired session": ("ExpiredTokenException", 400),
    "wrong secret": ("InvalidSignatureException", 400),
}
_QUERY: dict[str, Refusal] = {
    "denied": ("AccessDenied", 403),
    "unsigned": ("MissingAuthenticationToken", 403),
    "unknown key": ("InvalidClientTokenId", 403),
    "session without its token": ("InvalidClientTokenId", 403),
    "expired session": ("ExpiredToken", 403),
    "wrong secret": ("SignatureDoesNotMatch", 403),
}
REFUSALS: dict[str, dict[str, Refusal]] = {
    "json": _JSON,
    "rest-json": {kind: (code, 403) for kind, (code, _) in _JSON.items()},
    "query": _QUERY,
    "sns": {**_QUERY, "denied": ("AuthorizationError", 403)},
    # SQS's JSON protocol has some codes of its older one.
    "sqs": {**_JSON, "denied": ("AccessDenied", 403)},
    "s3": {
        "denied": ("AccessDenied", 403),
        "unsigned": ("AccessDenied", 403),
        "unknown key": ("InvalidAccessKeyId", 403),
        "session without its token": ("InvalidToken", 400),
        "expired session": ("ExpiredToken", 400),
        "wrong secret": ("SignatureDoesNotMatch", 403),
    },
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SigningLab]:
    guarded = Guarded(tmp_path_factory.mktemp("matrix") / "data", iam="enforce")
    yield SigningLab(guarded)
    guarded.cloud.stop()


@pytest.fixture(scope="module")
def requests() -> dict[str, AWSRequest]:
    return {
        each.service: unsigned_request(each.service, each.method, each.params)
        for each in OPERATIONS
    }


def refusal_of(kind: str, operation: Operation) -> Refusal:
    is_denied = kind in MAY_NOT or (operation.is_of_account and kind.startswith("another account"))
    if kind in MAY and not is_denied:
        return "", 200
    if kind == "unsigned" and operation.family == "rest-json" and operation.service != "lambda":
        # Without a signature only the path names the service: such paths could be S3's too.
        return REFUSALS["s3"][kind]
    return REFUSALS[operation.family]["denied" if is_denied else kind]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.service)
@pytest.mark.parametrize("way", ["header", "query"])
def test_every_caller_at_every_service(
    lab: SigningLab, requests: dict[str, AWSRequest], operation: Operation, way: str
):
    answers, expected = {}, {}
    for kind in (*MAY, *MAY_NOT, *NOBODY):
        request = lab.signed(
            way, requests[operation.service], lab.callers.get(kind), operation.signing_name
        )
        answers[kind] = said(lab.send(request))
        expected[kind] = refusal_of(kind, operation)
    assert answers == expected
