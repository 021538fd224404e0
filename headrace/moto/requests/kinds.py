"""The kind of a request to moto: one that only reads, one that waits, one that changes nothing but rows."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from headrace.aws.calls import operation as operations

READ_ONLY = re.compile(
    r"^(Get|List|Describe|Head|BatchGet|Query|Scan|Filter|Lookup|Search|Simulate|Validate|Verify"
    r"|Decrypt|Encrypt|GenerateDataKey|GenerateRandom|BatchCheck|CheckIfPhone|ReEncrypt|Sign"
    r"|TestEventPattern|StartQuery|StartLiveTail)"
)
# moto's services whose reads are known to change nothing; other services' reads are treated like writes.
QUIET = frozenset(
    {
        "cloudwatch", "dynamodb", "dynamodbstreams", "ec2", "ecr", "events", "glue", "iam", "logs",
        "s3", "sns", "ssm", "sts",
    }
)  # fmt: skip
# Requests that wait inside moto for an event or for a function: other requests must not wait for them. They run without
# moto's lock.
WAITS = re.compile(
    r"^Poll|^StartSyncExecution$|^TestState$"
    # A user pool's triggers (services/cognito).
    r"|^(Admin)?ConfirmSignUp$|^SignUp$|^AdminCreateUser$|^(Admin)?InitiateAuth$|^(Admin)?RespondToAuthChallenge$"
    r"|^(Confirm)?ForgotPassword$|^ResendConfirmationCode$"
    # The steps of a rotation function; and the prime numbers of a key, which take seconds (moto/patches/kms_uses).
    r"|^RotateSecret$|^GenerateDataKeyPair"
    # An API's integration.
    r"|^TestInvokeMethod$"
)
# Requests that wait until there is a message: outside moto, which would sleep while it holds the request lock.
LONG_POLLS = frozenset({("sqs", "ReceiveMessage"), ("stepfunctions", "GetActivityTask")})
# Requests that free disk space, and are allowed when the disk is full.
FREES = re.compile(r"^(Delete|BatchDelete|Purge)")

# moto's package -> frequent requests that change nothing but rows.
ROWS_ONLY: dict[str, frozenset[str]] = {
    "dynamodb": frozenset(
        {
            "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems", "TransactGetItems",
            "ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction",
        }
    ),
    "sqs": frozenset(
        {
            "SendMessage", "SendMessageBatch", "ReceiveMessage", "DeleteMessage", "DeleteMessageBatch",
            "ChangeMessageVisibility", "ChangeMessageVisibilityBatch", "GetQueueAttributes", "GetQueueUrl",
            "ListQueues", "ListQueueTags", "ListDeadLetterSourceQueues",
        }
    ),
    "sns": frozenset({"Publish", "PublishBatch"}),
    "events": frozenset({"PutEvents"}),
    "logs": frozenset({"PutLogEvents", "CreateLogStream", "DeleteLogStream"}),
    "cloudwatch": frozenset({"PutMetricData"}),
    "sts": frozenset({"AssumeRole", "AssumeRoleWithSAML", "AssumeRoleWithWebIdentity"}),
    "glue": frozenset(
        {
            "CreatePartition", "UpdatePartition", "DeletePartition", "BatchCreatePartition",
            "BatchUpdatePartition", "BatchDeletePartition",
        }
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kind:
    """How a request is run.

    Attributes:
        is_concurrent: it only reads, in a service whose reads change nothing, so it runs beside others.
        waits: it waits inside moto for an event.
        frees: it frees disk space.
        changes_policies: it may change callers' permissions.
        changes_rows_only: it changes nothing but rows.
        is_long_poll: it waits outside moto for a message.
    """

    is_concurrent: bool
    waits: bool
    frees: bool
    changes_policies: bool
    changes_rows_only: bool
    is_long_poll: bool


# A client names the operation, in up to a megabyte: neither all of its texts nor the whole of one may be kept.
_LONGEST_NAME = 128


def kind_of(package: str, operation: str) -> Kind:
    """Return the kind of a request to an operation of moto's package; a longer name than AWS's is none's."""
    return _known_kind(package, operation[:_LONGEST_NAME])


@functools.lru_cache(maxsize=4096)
def _known_kind(package: str, operation: str) -> Kind:
    return Kind(
        package in QUIET and only_reads(package, operation),
        bool(WAITS.match(operation)),
        bool(FREES.match(operation)),
        changes_policies(package, operation),
        changes_rows_only(package, operation),
        (package, operation) in LONG_POLLS,
    )


def only_reads(package: str, operation: str) -> bool:
    """Whether a request may run concurrently with others."""
    return package != "sqs" and bool(READ_ONLY.match(operation))


def changes_rows_only(package: str, operation: str) -> bool:
    """Whether a request changes nothing but rows."""
    return operation in ROWS_ONLY.get(package, ())


def changes_policies(package: str, operation: str) -> bool:
    """Whether a request may change callers' permissions: all of IAM's do except reads."""
    if READ_ONLY.match(operation) or changes_rows_only(package, operation):
        return False
    return package == "iam" or operations.changes_policies(operation)
