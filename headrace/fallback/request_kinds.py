"""Tells which requests to moto only read, and which change only what is stored row by row."""

from __future__ import annotations

import re

READ_ONLY = re.compile(
    r"^(Get|List|Describe|Head|BatchGet|Query|Scan|Filter|Lookup|Search|Simulate|Validate|Verify"
    r"|Decrypt|Encrypt|GenerateDataKey|GenerateRandom|BatchCheck|CheckIfPhone|ReEncrypt|Sign"
    r"|TestEventPattern|StartQuery|StartLiveTail)"
)
# Services of moto whose reads are known to change nothing; a read of another's is looked at like a write.
QUIET = frozenset(
    {
        "cloudwatch", "dynamodb", "dynamodbstreams", "ec2", "ecr", "events", "glue", "iam", "logs",
        "s3", "sns", "ssm", "sts",
    }
)  # fmt: skip
# Requests that wait in moto for something to happen: others must not wait for them.
WAITS = re.compile(r"^Poll|^StartSyncExecution$|^TestState$")
# Requests that give room back, and are served when the disk is full.
FREES = re.compile(r"^(Delete|BatchDelete|Purge)")

# Requests that change who may do what: all of IAM's that do not only read, and those for policies of resources.
_POLICIES = re.compile(
    r"Policy|Policies|Permission|^SetQueueAttributes|^SetTopicAttributes|^(Create|Delete)(Queue|Topic|Key|Repository|Grant)"
    r"|^CreateEventBus|^RevokeGrant|^RetireGrant"
)

# By moto's package: what is asked often, and leaves all but rows as it was.
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


def only_reads(package: str, operation: str) -> bool:
    """Whether a request may run beside others."""
    return package != "sqs" and bool(READ_ONLY.match(operation))


def changes_rows_only(package: str, operation: str) -> bool:
    """Whether a request leaves all but rows as it was."""
    return operation in ROWS_ONLY.get(package, ())


def changes_policies(package: str, operation: str) -> bool:
    """Whether a request may change what callers may do."""
    if READ_ONLY.match(operation):
        return False
    return package == "iam" or bool(_POLICIES.search(operation))
