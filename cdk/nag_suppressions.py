"""Lists the findings of cdk-nag and `headrace lint` that this app accepts, each with its reason."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

_NAMES_AT_RUN_TIME = (
    "Objects get their names at run time; the role is held to the prefix under which they lie."
)
_MADE_AGAIN = (
    "The bucket holds data that can be made again from the stream, and is emptied with its stack. An access log needs a"
    " bucket that outlives the stack: name one of your account here if you keep the data."
)
_RUNTIME = (
    "Python 3.13 is the newest one on headrace's own test machines; Lambda supports it until 2029."
)
_NO_RESOURCES = "Metrics are no resources in IAM: the two actions take no other; writing is held to one namespace."
_IS_A_DLQ = "The queue is itself a destination on failure for failed batches, which the rule does not recognise."
_NO_LOGIN = (
    "Nobody logs in to the cluster: no port is open, jobs come as steps, logs go to the bucket."
    " A key pair would allow logins that nobody needs."
)
_OWN_SECURITY_CONFIGURATION = (
    "It needs a KMS key or certificates that belong to the account, not to an example. Input and output are encrypted"
    " in Kinesis and S3, and are reached by TLS; the disks hold only shuffle data of a single-tenant cluster."
)

_OWN_NETWORK = (
    "Firehose reaches a cluster only by its public address; restrict the source addresses in your own network: name a"
    " subnet group and a security group that allows Firehose's addresses of your region."
)
_AUDIT = "Two users load and read one table of an example; audit logs need a bucket that outlives the stack."

# By a construct's path: the id of cdk-nag's finding, and the reason to accept it.
NAG: dict[str, dict[str, str]] = {
    # With `-c elastic=true`.
    "headrace-ingest/Flights/Function": {"AwsSolutions-L1": _RUNTIME},
    "headrace-ingest/Flights/Role/DefaultPolicy": {"AwsSolutions-IAM5[Resource::*]": _NO_RESOURCES},
    "headrace-processing/Enrich/Failures": {"AwsSolutions-SQS3": _IS_A_DLQ},
    "headrace-processing/Enrich/Function": {"AwsSolutions-L1": _RUNTIME},
    "headrace-processing/Aggregate/Failures": {"AwsSolutions-SQS3": _IS_A_DLQ},
    "headrace-processing/Aggregate/Function": {"AwsSolutions-L1": _RUNTIME},
    "headrace-processing/Departures": {
        "AwsSolutions-DDB3": "The counts are made again from the stream, and the table is deleted with its stack."
    },
    "headrace-processing/BadRecords": {
        "AwsSolutions-SQS3": "Nothing fails here: people read it, and no function takes from it."
    },
    "headrace-processing/Redrive": {"AwsSolutions-L1": _RUNTIME},
    "headrace-processing/Redrive/ServiceRole": {
        "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole]": (
            "AWS's policy for a function's log; it allows three calls of CloudWatch Logs."
        )
    },
    "headrace-delivery/Lake/Bucket": {"AwsSolutions-S1": _MADE_AGAIN},
    "headrace-delivery/Flights/Delivery": {
        "AwsSolutions-KDF1": (
            "AWS refuses encryption of a delivery that reads a stream; the stream is encrypted, and so is the bucket."
        )
    },
    "headrace-delivery/Cluster": {
        "AwsSolutions-RS1": "Requiring TLS needs a parameter group of your account; Firehose connects with TLS anyway.",
        "AwsSolutions-RS2": _OWN_NETWORK,
        "AwsSolutions-RS5": _AUDIT,
        "AwsSolutions-RS8": _OWN_NETWORK,
        "AwsSolutions-RS11": _AUDIT,
    },
    "headrace-delivery/Login": {
        "AwsSolutions-SMG4": "The cluster and its login are made and deleted with the stack."
    },
    "headrace-delivery/Flights/Policy": {
        "AwsSolutions-IAM5[Resource::<LakeBucketB1D32E10.Arn>/redshift/*]": _NAMES_AT_RUN_TIME,
        "AwsSolutions-IAM5[Resource::<LakeBucketB1D32E10.Arn>/flights-errors/*]": _NAMES_AT_RUN_TIME,
        "AwsSolutions-IAM5[Resource::<LakeBucketB1D32E10.Arn>/flights/delivered_hour=*]": _NAMES_AT_RUN_TIME,
        # For the delivery to an Iceberg table.
        "AwsSolutions-IAM5[Resource::<LakeBucketB1D32E10.Arn>/flights-iceberg/*]": _NAMES_AT_RUN_TIME,
    },
    # With `-c pipeline=devices`.
    "headrace-devices/RuleErrors": {"AwsSolutions-SQS3": _IS_A_DLQ},
    "headrace-devices/AlertsQueue": {
        "AwsSolutions-SQS3": "People and tests read it, and no function takes from it."
    },
    "headrace-devices/Devices": {
        "AwsSolutions-DDB3": "The rows are made again from the stream, and the table is deleted with its stack."
    },
    "headrace-devices/Watch/Failures": {"AwsSolutions-SQS3": _IS_A_DLQ},
    "headrace-devices/Watch/Function": {"AwsSolutions-L1": _RUNTIME},
    "headrace-analytics/Results/Bucket": {"AwsSolutions-S1": _MADE_AGAIN},
    "headrace-analytics/Spark/NodeRole/DefaultPolicy": {
        f"AwsSolutions-IAM5[Resource::<ResultsBucket46167C27.Arn>/{prefix}/*]": _NAMES_AT_RUN_TIME
        for prefix in ("checkpoints/departures", "departures", "logs")
    },
    "headrace-analytics/Spark/ServiceRole": {
        "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AmazonEMRServicePolicy_v2]": (
            "EMR's own policy, which AWS requires; it covers only resources tagged for-use-with-amazon-emr-..."
        )
    },
    "headrace-analytics/Spark/Cluster": {
        "AwsSolutions-EMR4": _OWN_SECURITY_CONFIGURATION,
        "AwsSolutions-EMR5": _OWN_SECURITY_CONFIGURATION,
        "AwsSolutions-EMR6": _NO_LOGIN,
    },
}
_SMALL_DOMAIN = (
    "One small node is the least that an example costs; what it holds can be indexed again from the stream. Give a"
    " domain that must not fail several zones, nodes and master nodes of its own."
)
_PUBLIC_ENDPOINT = (
    "A network of its own belongs to the account, not to an example. Requests are signed, by TLS, and IAM's policies"
    " alone open the domain: no anonymous access and no other principal."
)
_NO_SLOW_LOGS = (
    "Its log groups would need a resource policy of the whole account, of which there are ten; turn them on for a"
    " domain that people search."
)
_DOCUMENTED_PATHS = "AWS documents these paths as what Firehose needs of a domain; indexes get their names at run time."
# For `-c delivery=opensearch`, instead of the delivery to Parquet; the delivery to http has no findings.
NAG_OF_OPENSEARCH: dict[str, dict[str, str]] = {
    "headrace-delivery/Domain": {
        "AwsSolutions-OS1": _PUBLIC_ENDPOINT,
        "AwsSolutions-OS3": _PUBLIC_ENDPOINT,
        "AwsSolutions-OS4": _SMALL_DOMAIN,
        "AwsSolutions-OS5": _PUBLIC_ENDPOINT,
        "AwsSolutions-OS7": _SMALL_DOMAIN,
        "AwsSolutions-OS9[LogExport::SEARCH_SLOW_LOGS]": _NO_SLOW_LOGS,
        "AwsSolutions-OS9[LogExport::INDEX_SLOW_LOGS]": _NO_SLOW_LOGS,
    },
    "headrace-delivery/Flights/Policy": {
        f"AwsSolutions-IAM5[Resource::<Domain66AC69E0.Arn>/{path}]": _DOCUMENTED_PATHS
        for path in ("*", "_nodes/*/stats", "flights*/_mapping/*", "flights*/_stats")
    },
}
_KEPT_LONGER = (
    "The queue keeps two weeks so that a failure over the holidays is noticed at all; a message older than the stream's"
    " day still says when, in which shard and how many, and redrive reports it as lost."
)
# By a construct's path: the id of `headrace lint`'s finding at one of its resources, and the reason to accept it.
LINT: dict[str, dict[str, str]] = {
    "headrace-processing/Enrich/Function": {"W9006": _KEPT_LONGER},
    "headrace-processing/Aggregate/Function": {"W9006": _KEPT_LONGER},
    "headrace-devices/Watch/Function": {"W9006": _KEPT_LONGER},
}


def acknowledge(app: cdk.App) -> None:
    """Tell cdk-nag and cfn-lint the accepted findings; skip constructs that an option leaves out."""
    for path, findings in (*NAG.items(), *NAG_OF_OPENSEARCH.items()):
        construct = find(app, path)
        if construct is not None:
            rules = [cdk.Acknowledgment(id=one, reason=why) for one, why in findings.items()]
            cdk.Validations.of(construct).acknowledge(*rules)
    for path, findings in LINT.items():
        construct = find(app, path)
        for one in construct.node.find_all() if construct is not None else ():
            if (
                isinstance(one, cdk.CfnResource)
                and one.cfn_resource_type == "AWS::Lambda::EventSourceMapping"
            ):
                one.add_metadata("cfn-lint", {"config": {"ignore_checks": sorted(findings)}})


def find(app: cdk.App, path: str) -> Construct | None:
    """Return the construct with this path below the app, or None."""
    construct: Construct = app
    for name in path.split("/"):
        below = construct.node.try_find_child(name)
        if not isinstance(below, Construct):
            return None
        construct = below
    return construct
