"""The findings of cdk-nag and `headrace lint` that this app keeps, each with its reason; all others are mended."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

_NAMES_AT_RUN_TIME = (
    "Objects get their names at run time; the role is held to the prefix under which they lie."
)
_MADE_AGAIN = (
    "The bucket holds what can be made again from the stream, and is emptied with its stack. An access log needs a"
    " bucket that outlives it: name one of your account's here when you keep the data."
)
_RUNTIME = (
    "Python 3.13 is the newest of headrace's own test machines; Lambda supports it until 2029."
)
_IS_A_DLQ = "It is itself where failed batches end: a destination on failure, which the rule does not look for."
_NO_LOGIN = (
    "Nobody logs in to the cluster: no port is opened, jobs come as steps, logs go to the bucket."
    " A key pair would be a way in that nobody needs."
)
_OWN_SECURITY_CONFIGURATION = (
    "It takes a KMS key or certificates that belong to the account, not to an example. Input and output lie in"
    " Kinesis and S3, encrypted, and are reached by TLS; the disks hold shuffles of a cluster without a second tenant."
)

_OWN_NETWORK = (
    "Firehose reaches a cluster by its public address alone, and from which addresses is your network's to say: name a"
    " subnet group and a security group that lets in Firehose's addresses of your region."
)
_AUDIT = "Two users load and read one table of an example; audit logs need a bucket that outlives the stack."

# By a construct's path: the id of what cdk-nag finds there, and why it stays.
NAG: dict[str, dict[str, str]] = {
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
        "AwsSolutions-RS1": "A parameter group of your account's requires TLS; Firehose connects with it anyway.",
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
        # Of the delivery to an Iceberg table.
        "AwsSolutions-IAM5[Resource::<LakeBucketB1D32E10.Arn>/flights-iceberg/*]": _NAMES_AT_RUN_TIME,
    },
    "headrace-analytics/Results/Bucket": {"AwsSolutions-S1": _MADE_AGAIN},
    "headrace-analytics/Spark/NodeRole/DefaultPolicy": {
        f"AwsSolutions-IAM5[Resource::<ResultsBucket46167C27.Arn>/{prefix}/*]": _NAMES_AT_RUN_TIME
        for prefix in ("checkpoints/departures", "departures", "logs")
    },
    "headrace-analytics/Spark/ServiceRole": {
        "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AmazonEMRServicePolicy_v2]": (
            "EMR's own policy, which AWS asks for; it covers only what is tagged for-use-with-amazon-emr-..."
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
# The same of `-c delivery=opensearch`, in place of the delivery to Parquet; that of http has no findings.
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
# By the path of a construct: the id of what `headrace lint` finds at one of the resources in it, and why it stays.
LINT: dict[str, dict[str, str]] = {
    "headrace-processing/Enrich/Function": {"W9006": _KEPT_LONGER},
    "headrace-processing/Aggregate/Function": {"W9006": _KEPT_LONGER},
}


def acknowledge(app: cdk.App) -> None:
    """Tell cdk-nag and cfn-lint what stays; a construct that an option leaves out is passed over."""
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
    """Return the construct with this path below the app; None when it is not there."""
    found: Construct = app
    for name in path.split("/"):
        below = found.node.try_find_child(name)
        if not isinstance(below, Construct):
            return None
        found = below
    return found
