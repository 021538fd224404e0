"""What moto's services accept and nothing here does: calls that answer and say so, and members that moto drops.

A definition that stacks need (an instance, a schedule, a trail) is stored. Its answer has the sentence in a header, the
cloud's log has it once, and so have `/_headrace/fidelity`, a stack's report and `headrace lint --local`. What it is
told to be (logging, ACTIVATED, running) it is shown to be, for clients wait for that and compare it; such an answer has
the sentence, too. A call that only runs something is refused instead (`headrace.moto.patches.not_run`).

The dropped members are the fidelity tables of moto's services, *ignored* throughout. A member inside another one stands
with its path, through lists too: `Rules.Action`. `python -m scripts.dropped_members` writes `dropped_members.json`; it
says how it knows. `tried_members.json` has what makes no difference in moto's memory (`python -m tests.support.made_up`
writes it).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.aws.calls.http import WITHOUT_EFFECT
from headrace.core.patterns import glob_matches
from headrace.core.ports import FidelityLevel

log = logging.getLogger(__name__)

_MACHINES = "headrace has no machines: instances are stored, and nothing runs on them."
_CONTAINERS = "headrace runs no containers: the service is stored, and no task of it runs."
_DATABASE = "headrace has no database behind {}: the definition is stored, and nothing answers at the endpoint."
_ENDPOINT = "headrace stores the definition: nothing answers at the endpoint."
_FINDINGS = "headrace stores the setting: nothing is scanned, and there are no findings."
_SCALING = "headrace stores the definition and scales nothing."
_NO_LOGS = "headrace stores the definition: no logs are delivered."
_NO_ACCESS_LOGS = "headrace stores the setting: requests to the API are written to no access log."
_NO_MAIL = (
    "headrace keeps the message: no mail leaves this cloud, and no bounces or events come of it."
)
_NOT_SENT = "headrace sends no {}: nothing is delivered."
_OF_CRAWLERS = "headrace does not run Glue's crawlers: the schedule starts none."
_OF_TRIGGERS = "headrace does not run Glue's triggers: no job is started, now or later."

# botocore's service -> operation, or operation and member (or member=value), -> what does not happen.
_SENTENCES: dict[str, dict[str, str]] = {
    "amp": {"CreateWorkspace": _ENDPOINT},
    # The paths of patch operations, and the name of a template's property.
    "apigateway": {"UpdateStage.patchOperations=*ccessLogSetting*": _NO_ACCESS_LOGS},
    "apigatewayv2": {"CreateStage.AccessLogSettings": _NO_ACCESS_LOGS},
    "application-autoscaling": dict.fromkeys(("PutScalingPolicy", "PutScheduledAction"), _SCALING),
    "appsync": dict.fromkeys(("CreateApi", "CreateGraphqlApi"), _ENDPOINT),
    "autoscaling": {
        "CreateAutoScalingGroup": _MACHINES,
        **dict.fromkeys(
            ("BatchPutScheduledUpdateGroupAction", "PutScheduledUpdateGroupAction", "PutScalingPolicy"),
            _SCALING,
        ),
    },
    "backup": {"CreateBackupPlan": "headrace stores the plan and makes no backups."},
    "bedrock": {"PutModelInvocationLoggingConfiguration": _NO_LOGS},
    "budgets": {"CreateBudget": "headrace costs nothing: the budget is stored, and notifies nobody."},
    "cloudfront": dict.fromkeys(
        ("CreateDistribution", "CreateDistributionWithTags"),
        "headrace stores the distribution: nothing answers at its domain.",
    ),
    "cloudtrail": {
        "StartLogging": "headrace records no calls for CloudTrail: nothing is written to the bucket or the log group."
    },
    "cloudwatch": {"PutInsightRule": "headrace stores Contributor Insights' rules and evaluates none."},
    "codecommit": {"CreateRepository": "headrace serves no git: nothing answers at the clone URLs."},
    "config": {
        "PutConfigRule": "headrace stores AWS Config's rules and evaluates none.",
        "StartConfigurationRecorder": "headrace records no configurations: nothing is delivered to the channel.",
    },
    "dax": {"CreateCluster": _ENDPOINT},
    "ec2": {
        **dict.fromkeys(
            ("CreateFleet", "RequestSpotFleet", "RequestSpotInstances", "RunInstances", "StartInstances"), _MACHINES
        ),
        "CreateFlowLogs": _NO_LOGS,
    },
    "ecr": {"PutReplicationConfiguration": "headrace stores the configuration: there are no images to replicate."},
    "ecs": dict.fromkeys(("CreateService", "CreateTaskSet"), _CONTAINERS),
    "efs": dict.fromkeys(("CreateFileSystem", "CreateMountTarget"), _ENDPOINT),
    "eks": {
        "CreateCluster": _ENDPOINT,
        **dict.fromkeys(("CreateFargateProfile", "CreateNodegroup"), _MACHINES),
    },
    "elasticache": dict.fromkeys(("CreateCacheCluster", "CreateReplicationGroup"), _ENDPOINT),
    "elasticbeanstalk": {"CreateEnvironment": _MACHINES},
    "elb": {"CreateLoadBalancer": _ENDPOINT},
    "elbv2": {"CreateLoadBalancer": _ENDPOINT},
    "fsx": {"CreateFileSystem": _ENDPOINT},
    "glue": {"CreateCrawler.Schedule": _OF_CRAWLERS, "CreateTrigger.StartOnCreation": _OF_TRIGGERS},
    "guardduty": {"CreateDetector": _FINDINGS},
    "inspector2": {"Enable": _FINDINGS},
    "ivs": {"CreateChannel": _ENDPOINT},
    "kafka": dict.fromkeys(("CreateCluster", "CreateClusterV2"), _ENDPOINT),
    "logs": {"CreateDelivery": _NO_LOGS},
    "macie2": {"EnableMacie": _FINDINGS},
    "memorydb": {"CreateCluster": _ENDPOINT},
    "mq": {"CreateBroker": _ENDPOINT},
    "rds": {
        **dict.fromkeys(
            (
                "CreateDBCluster", "CreateDBInstance", "CreateDBInstanceReadReplica", "CreateDBProxy",
                "RestoreDBClusterFromSnapshot", "RestoreDBClusterToPointInTime", "RestoreDBInstanceFromDBSnapshot",
                "RestoreDBInstanceToPointInTime", "StartDBCluster", "StartDBInstance",
            ),
            _DATABASE.format("RDS"),
        ),
        "CreateEventSubscription": _NOT_SENT.format("events of RDS"),
    },
    "redshift": {
        "EnableLogging": _NO_LOGS,
        "EnableSnapshotCopy": "headrace stores the setting and copies no snapshots.",
    },
    "route53": {
        "CreateHealthCheck": "headrace stores the health check and checks nothing.",
        "CreateQueryLoggingConfig": _NO_LOGS,
    },
    "route53resolver": dict.fromkeys(
        ("AssociateResolverQueryLogConfig", "CreateResolverQueryLogConfig"), _NO_LOGS
    ),
    "s3control": {"PutStorageLensConfiguration": "headrace stores the configuration and exports no metrics."},
    "sagemaker": {"CreateNotebookInstance": _MACHINES},
    "ses": {
        **dict.fromkeys(
            ("SendBulkTemplatedEmail", "SendEmail", "SendRawEmail", "SendTemplatedEmail"), _NO_MAIL
        ),
        "CreateConfigurationSetEventDestination": _NOT_SENT.format("events of mail"),
        "CreateReceiptRule": "headrace receives no mail: the rule is stored and never acts.",
    },
    "sesv2": {"SendEmail": _NO_MAIL},
    "sns": {
        "Publish.PhoneNumber": _NOT_SENT.format("text messages"),
        "Subscribe.Protocol=application": _NOT_SENT.format("push notifications"),
        "Subscribe.Protocol=email": _NOT_SENT.format("mail"),
        "Subscribe.Protocol=email-json": _NOT_SENT.format("mail"),
        "Subscribe.Protocol=sms": _NOT_SENT.format("text messages"),
        "Publish.TargetArn=*:endpoint/*": _NOT_SENT.format("push notifications"),
    },
    "ssm": {
        "RegisterTaskWithMaintenanceWindow": "headrace has no instances: it stores the task and never runs it."
    },
    "synthetics": {"CreateCanary": "headrace stores the canary and runs none."},
    "timestream-influxdb": dict.fromkeys(
        ("CreateDbCluster", "CreateDbInstance"), _DATABASE.format("InfluxDB")
    ),
    "transfer": dict.fromkeys(("CreateConnector", "CreateServer"), _ENDPOINT),
    "vpc-lattice": {"CreateAccessLogSubscription": _NO_LOGS},
    "wafv2": {
        "CreateWebACL": "headrace stores the web ACL: it filters no requests.",
        "PutLoggingConfiguration": _NO_LOGS,
    },
    "workspaces": {"CreateWorkspaces": _MACHINES},
}  # fmt: skip

# botocore's service -> operation whose answer shows a state that nothing here acts on -> the row above that says so.
_SHOWN: dict[str, dict[str, str]] = {
    "application-autoscaling": {
        "DescribeScalingPolicies": "PutScalingPolicy", "DescribeScheduledActions": "PutScheduledAction",
    },
    "autoscaling": {
        **dict.fromkeys(("DescribeAutoScalingGroups", "DescribeAutoScalingInstances"), "CreateAutoScalingGroup"),
        "DescribePolicies": "PutScalingPolicy", "DescribeScheduledActions": "PutScheduledUpdateGroupAction",
    },
    "cloudtrail": {"GetTrailStatus": "StartLogging"},
    "cloudwatch": {"DescribeInsightRules": "PutInsightRule"},
    "config": {"DescribeConfigurationRecorderStatus": "StartConfigurationRecorder"},
    "ec2": {
        "DescribeFlowLogs": "CreateFlowLogs",
        **dict.fromkeys(("DescribeInstances", "DescribeInstanceStatus"), "RunInstances"),
    },
    "ecs": {"DescribeServices": "CreateService"},
    "eks": {
        "DescribeCluster": "CreateCluster", "DescribeFargateProfile": "CreateFargateProfile",
        "DescribeNodegroup": "CreateNodegroup",
    },
    "elasticache": {
        "DescribeCacheClusters": "CreateCacheCluster", "DescribeReplicationGroups": "CreateReplicationGroup",
    },
    "elasticbeanstalk": {"DescribeEnvironments": "CreateEnvironment"},
    "elb": {"DescribeInstanceHealth": "CreateLoadBalancer"},
    "elbv2": {"DescribeTargetHealth": "CreateLoadBalancer"},
    "glue": {
        **dict.fromkeys(("GetCrawler", "GetCrawlers"), "CreateCrawler.Schedule"),
        **dict.fromkeys(("BatchGetTriggers", "GetTrigger", "GetTriggers"), "CreateTrigger.StartOnCreation"),
    },
    "guardduty": {"GetDetector": "CreateDetector"},
    "inspector2": {"BatchGetAccountStatus": "Enable"},
    "kafka": dict.fromkeys(("DescribeCluster", "DescribeClusterV2"), "CreateCluster"),
    "macie2": {"GetMacieSession": "EnableMacie"},
    "mq": {"DescribeBroker": "CreateBroker"},
    "rds": {
        "DescribeDBClusters": "CreateDBCluster", "DescribeDBInstances": "CreateDBInstance",
        "DescribeEventSubscriptions": "CreateEventSubscription",
    },
    "redshift": {"DescribeLoggingStatus": "EnableLogging"},
    "route53": {"GetHealthCheckStatus": "CreateHealthCheck"},
    "sagemaker": {"DescribeNotebookInstance": "CreateNotebookInstance"},
    "workspaces": {"DescribeWorkspaces": "CreateWorkspaces"},
}  # fmt: skip


# The same of S3, which is headrace's own.
_OF_S3 = {
    "PutBucketAccelerateConfiguration.AccelerateConfiguration": "headrace stores the setting: nothing gets faster.",
    "PutBucketAnalyticsConfiguration.AnalyticsConfiguration": "headrace stores this and exports no analysis.",
    "PutBucketIntelligentTieringConfiguration.IntelligentTieringConfiguration": (
        "headrace stores the configuration and moves no objects between tiers."
    ),
    "PutBucketInventoryConfiguration.InventoryConfiguration": "headrace stores this and writes no inventory.",
    "PutBucketLogging.BucketLoggingStatus": "headrace stores the configuration and writes no access logs.",
    "PutBucketMetricsConfiguration.MetricsConfiguration": "headrace stores this and sends no request metrics.",
    "PutBucketReplication.ReplicationConfiguration": (
        "headrace stores the rules and replicates no objects: copy them by a function on the bucket's notifications."
    ),
}


@dataclass(frozen=True, slots=True)
class WithoutEffect:
    """A call, or one with a member, that answers without the effect that it has on AWS.

    Attributes:
        member: the member that has no effect; "" when it is the whole call.
        pattern: only values like this one (`*` stands for any text); "" for all but empty ones.
        sentence: what does not happen.
    """

    service: str
    operation: str
    member: str
    pattern: str
    sentence: str

    @property
    def is_ignored(self) -> bool:
        """Whether it is a member alone that has no effect, whatever its value: `--strict` refuses it."""
        return bool(self.member) and not self.pattern

    def concerns(self, value: Any) -> bool:
        """Whether a value of the member is one that has no effect."""
        return glob_matches(self.pattern, str(value)) if self.pattern else bool(value)


def _rows(sentences_of: Mapping[str, Mapping[str, str]]) -> Iterator[WithoutEffect]:
    for service, sentences in sentences_of.items():
        for name, text in sentences.items():
            call, _, pattern = name.partition("=")
            operation, _, member = call.partition(".")
            yield WithoutEffect(service, operation, member, pattern, text)


ROWS = (
    *_rows(_SENTENCES),
    *_rows(
        {
            service: {shown: _SENTENCES[service][made] for shown, made in operations.items()}
            for service, operations in _SHOWN.items()
        }
    ),
)
S3_ROWS = tuple(_rows({"s3": _OF_S3}))


def _module_of(row: WithoutEffect) -> str:
    return f"moto.{row.service.replace('-', '')}.responses"


MODULES = tuple(dict.fromkeys(map(_module_of, ROWS)))
# Service and sentence.
_said: set[tuple[str, str]] = set()


def rows_of(service: str, operation: str) -> list[WithoutEffect]:
    """Return what an operation accepts without effect."""
    return [
        row for row in (*ROWS, *S3_ROWS) if (row.service, row.operation) == (service, operation)
    ]


def say_in_header(
    service: str, operation: str, params: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield the header of an answer of headrace's own to a call that has not its effect, and log it."""
    for row in rows_of(service, operation):
        if not row.member or row.concerns(params.get(row.member)):
            _log_once(row)
            yield WITHOUT_EFFECT, row.sentence


def say_so(module: Any) -> None:
    """Make the operations of a module of moto's responses say what they do not do."""
    from moto.core.utils import camelcase_to_underscores

    rows = [row for row in ROWS if _module_of(row) == module.__name__]
    for operation in dict.fromkeys(row.operation for row in rows):
        name = camelcase_to_underscores(operation)
        [response] = [
            one
            for one in vars(module).values()
            if isinstance(one, type) and one.__module__ == module.__name__ and name in dir(one)
        ]
        own = [row for row in rows if row.operation == operation]
        setattr(response, name, _saying(getattr(response, name), own))


def _saying(method: Callable[[Any], Any], rows: list[WithoutEffect]) -> Callable[[Any], Any]:
    @functools.wraps(method)
    def answer_and_say(self: Any) -> Any:
        answer = method(self)
        for row in () if _says_failed(answer) else rows:
            if not row.member or row.concerns(_read_member(self, row.member)):
                self.response_headers[WITHOUT_EFFECT] = row.sentence
                _log_once(row)
        return answer

    return answer_and_say


def _read_member(self: Any, member: str) -> Any:
    """Return a member of the request, which API Gateway's newer protocol writes with a small first letter."""
    value = self._get_param(member)
    return self._get_param(member[0].lower() + member[1:]) if value is None else value


_FAILURES = ("error", "fail", "unsuccessful")


def _says_failed(answer: Any) -> bool:
    """Whether an answer lists failures and nothing that was made, such as CreateFlowLogs' Unsuccessful."""
    result = getattr(answer, "result", answer)
    if isinstance(result, str) and result.startswith("{"):
        result = json.loads(result)
    if not isinstance(result, Mapping):
        return False
    lists = {name.lower(): value for name, value in result.items() if isinstance(value, list)}
    failed = {name for name, value in lists.items() if value and name.startswith(_FAILURES)}
    return bool(failed) and not any(lists[name] for name in lists.keys() - failed)


def _log_once(row: WithoutEffect) -> None:
    if (row.service, row.sentence) not in _said:
        _said.add((row.service, row.sentence))
        log.warning("%s:%s: %s", row.service, row.operation, row.sentence)


DROPPED_FILE = Path(__file__).with_name("dropped_members.json")
TRIED_FILE = DROPPED_FILE.with_name("tried_members.json")
# What the examples of tests/api/cloudformation/declared give, and no read shows.
_SEEN: dict[str, dict[str, list[str]]] = {
    # moto has no DescribeSubscribersForNotification, and sends nothing.
    "budgets": {"CreateBudget": ["NotificationsWithSubscribers.Subscribers"]},
    "cloudfront": {
        "CreateDistributionWithTags": [
            "DistributionConfigWithTags.DistributionConfig.Origins.Items.OriginAccessControlId"
        ]
    },
    "dms": {"CreateReplicationSubnetGroup": ["SubnetIds"]},
}


@functools.cache
def dropped_members() -> Mapping[str, Mapping[str, Mapping[str, FidelityLevel]]]:
    """Return the dropped members' paths by service and operation; the level of each is *ignored*."""
    levels: dict[str, dict[str, dict[str, FidelityLevel]]] = {}
    for services in (
        json.loads(DROPPED_FILE.read_text()),
        json.loads(TRIED_FILE.read_text()),
        _SEEN,
    ):
        for service, operations in services.items():
            table = levels.setdefault(service, {})
            for name, members in operations.items():
                table.setdefault(name, {}).update(dict.fromkeys(members, "ignored"))  # pyrefly: ignore[no-matching-overload]
    return levels
