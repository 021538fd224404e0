"""Rules for roles: permissions that a trigger needs and its role lacks, and permissions that nobody uses.

The rule for EMR steps: the role of the nodes must be able to read the stream that a step is given.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lint.permissions import Statement, functions_of, permissions_of, role_of
from headrace.lint.rules.streams import DELIVERY
from headrace.lint.template import (
    CONSUMER,
    MAPPING,
    QUEUE,
    STREAM,
    TABLES,
    Finding,
    Resource,
    StreamingRule,
    Template,
    function_of,
    source_of,
    stream_of,
)

_MAPPING_PAGE = "https://docs.aws.amazon.com/lambda/latest/dg/lambda-intro-execution-role.html"
# Without these CreateEventSourceMapping is refused, "Cannot access stream ..." (observed by others:
# aws-amplify/amplify-cli#12965, alertlogic/cwe-collector#2). Without ListShards
# Lambda still works (observed by others: serverless#8540).
_STREAM_CALLS = ("kinesis:GetRecords", "kinesis:GetShardIterator", "kinesis:DescribeStream")
_NEEDS: dict[str, tuple[str, ...]] = {
    STREAM: _STREAM_CALLS,
    QUEUE: ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"),
    **dict.fromkeys(
        TABLES,
        ("dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:DescribeStream"),
    ),
}
_DESTINATIONS = {
    QUEUE: ("sqs:SendMessage",),
    "AWS::SNS::Topic": ("sns:Publish",),
    "AWS::S3::Bucket": ("s3:PutObject", "s3:ListBucket"),
}
_TRUST = """\
    AssumeRolePolicyDocument:
      Version: "2012-10-17"
      Statement: [{Effect: Allow, Principal: {Service: lambda.amazonaws.com}, Action: sts:AssumeRole}]
"""


def _example(*actions: str, resource: str = "!GetAtt Clicks.Arn") -> str:
    return f"""\
Clicks:
  Type: AWS::Kinesis::Stream
  Properties: {{ShardCount: 1}}
Role:
  Type: AWS::IAM::Role
  Properties:
{_TRUST}    Policies:
      - PolicyName: work
        PolicyDocument:
          Version: "2012-10-17"
          Statement: [{{Effect: Allow, Action: [{", ".join(f'"{one}"' for one in actions)}], Resource: {resource}}}]
Count:
  Type: AWS::Lambda::Function
  Properties:
    Role: !GetAtt Role.Arn
    Code: {{S3Bucket: code, S3Key: count.zip}}
"""


_MAPPED = """\
Mapping:
  Type: AWS::Lambda::EventSourceMapping
  Properties: {EventSourceArn: !GetAtt Clicks.Arn, FunctionName: !Ref Count, StartingPosition: LATEST}
"""


class RoleLacksTrigger(StreamingRule):
    """E9050: A function's role lacks permissions that its trigger needs."""

    id = "E9050"
    shortdesc = "A function's role lacks permissions that its trigger needs"
    description = (
        "Lambda reads streams and queues with the function's role, and sends to the destination on failure with it;"
        " AWS refuses the mapping, or its records go nowhere."
    )
    source_url = _MAPPING_PAGE
    bad = _example("kinesis:GetRecords") + _MAPPED
    good = _example("kinesis:Get*", "kinesis:DescribeStream") + _MAPPED

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the mappings whose function's role may not read their source or not write to their destination."""
        for mapping in template.of_type(MAPPING):
            function, source = function_of(mapping), source_of(mapping)
            role = role_of(function, "Role") if function is not None else None
            if role is None:
                continue
            permissions = permissions_of(role)
            pairs: list[tuple[Resource, tuple[str, ...]]] = []
            if source is not None and source.type in _NEEDS:
                pairs.append((source, _NEEDS[source.type]))
            elif source is not None and source.type == CONSUMER:
                pairs.append((source, ("kinesis:SubscribeToShard",)))
            failures = mapping.targets("DestinationConfig", "OnFailure", "Destination")
            pairs += [(target, _DESTINATIONS.get(target.type, ())) for target in failures]
            for target, actions in pairs:
                lacking = permissions.lacks(actions, target)
                # The table names its stream, and a stream's ARN may cover the stream's consumers.
                if lacking and target.type == CONSUMER and (stream := stream_of(mapping)):
                    lacking = permissions.lacks(actions, stream)
                if lacking:
                    yield Finding(
                        mapping,
                        f"{role.name}, the role of {function.name if function else 'the function'},"
                        f" may not call {', '.join(lacking)} on {target.name}",
                        ("FunctionName",),
                    )


class DeliveryRoleLacksCalls(StreamingRule):
    """E9051: A delivery's role lacks permissions that Firehose needs."""

    id = "E9051"
    shortdesc = "A delivery's role lacks permissions that Firehose needs"
    description = (
        "Firehose reads its source stream and writes to its bucket with the roles of its configuration; without the"
        " permissions AWS refuses the delivery stream, or it fails and the records of its source expire."
    )
    source_url = "https://docs.aws.amazon.com/firehose/latest/dev/controlling-access.html"
    _delivery = """\
Lake: {Type: 'AWS::S3::Bucket'}
Delivery:
  Type: AWS::KinesisFirehose::DeliveryStream
  Properties:
    DeliveryStreamType: KinesisStreamAsSource
    KinesisStreamSourceConfiguration: {KinesisStreamARN: !GetAtt Clicks.Arn, RoleARN: !GetAtt Role.Arn}
    ExtendedS3DestinationConfiguration: {BucketARN: !GetAtt Lake.Arn, RoleARN: !GetAtt Role.Arn}
"""
    bad = _example("kinesis:GetRecords", "s3:PutObject", resource="'*'") + _delivery
    good = _example("kinesis:Get*", "kinesis:Describe*", "s3:PutObject", resource="'*'") + _delivery

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the deliveries whose roles lack permissions."""
        source, s3 = "KinesisStreamSourceConfiguration", "ExtendedS3DestinationConfiguration"
        configurations = (
            (source, "KinesisStreamARN", ("DescribeStream", "GetShardIterator", "GetRecords")),
            (s3, "BucketARN", ("PutObject",)),
        )
        for delivery in template.of_type(DELIVERY):
            for configuration, member, calls in configurations:
                role = role_of(delivery, configuration, "RoleARN")
                service = "kinesis" if configuration == source else "s3"
                for target in delivery.targets(configuration, member) if role is not None else ():
                    actions = tuple(f"{service}:{call}" for call in calls)
                    lacking = permissions_of(role).lacks(actions, target) if role else []
                    if lacking:
                        yield Finding(
                            delivery,
                            f"{role.name if role else ''}, the role of {delivery.name},"
                            f" may not call {', '.join(lacking)} on {target.name}",
                            (configuration, "RoleARN"),
                        )


_SERVICES = ("kinesis", "firehose", "sqs", "dynamodb")


class RoleAllowsEverything(StreamingRule):
    """W9052: A role allows every call of a streaming service, and no user needs all of them."""

    id = "W9052"
    shortdesc = "A role allows every call of a streaming service, and no user needs all of them"
    description = (
        "kinesis:* lets a reader delete its stream, sqs:* a sender purge its queue. Name the calls: a trigger needs"
        " three or four."
    )
    source_url = "https://docs.aws.amazon.com/IAM/latest/UserGuide/best-practices.html"
    bad = _example("kinesis:*") + _MAPPED
    good = RoleLacksTrigger.good

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the statements that allow every call of a service."""
        for owner, statement in _statements(template):
            whole = [f"{name}:*" for name in _SERVICES if f"{name}:*" in statement.actions]
            if "*" in statement.actions:
                whole = ["*"]
            if whole and statement.members != ("ManagedPolicyArns",):
                yield Finding(
                    owner,
                    f"{owner.name} allows {', '.join(whole)}; name the calls",
                    statement.members,
                )


class RoleAllowsUnused(StreamingRule):
    """W9053: A function's role allows calls on a stream, queue or table that the function never names."""

    id = "W9053"
    shortdesc = (
        "A function's role allows calls on a stream, queue or table that the function never names"
    )
    description = (
        "No mapping of the function reads the resource, and no destination or other configuration of the function names"
        " it: the statement is left over, and allows more than is used."
    )
    source_url = "https://docs.aws.amazon.com/IAM/latest/UserGuide/best-practices.html"
    bad = (
        _example("kinesis:PutRecord", resource="!GetAtt Old.Arn")
        + "Old: {Type: 'AWS::Kinesis::Stream', Properties: {ShardCount: 1}}\n"
    )
    good = bad.replace(
        "S3Key: count.zip}", "S3Key: count.zip}\n    Environment: {Variables: {OUTPUT: !Ref Old}}"
    )

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the statements about resources that no function with the role names."""
        kinds = (STREAM, QUEUE, CONSUMER, DELIVERY, *TABLES)
        for role in template.of_type("AWS::IAM::Role"):
            functions = functions_of(role, template)
            if not functions or _serves_others(role, template):
                continue
            used = self._list_used(functions, template)
            for statement in permissions_of(role).statements:
                owner = statement.owner
                for one in owner.template.list_named_in(list(statement.resources)):
                    if one.type in kinds and one.key not in used and owner.template is template:
                        yield Finding(
                            owner,
                            f"{role.name} may call {', '.join(statement.actions)} on {one.name},"
                            f" which {functions[0].name} never names",
                            statement.members,
                        )

    def _list_used(self, functions: list[Resource], template: Template) -> set[tuple[str, str]]:
        mine = {one.key for one in functions}
        named = [one for function in functions for one in function.neighbours]
        for other in template.around():
            for one in other.resources.values():
                if not one.type.startswith("AWS::Lambda::"):
                    continue
                around = one.neighbours
                if one.key not in mine and any(resource.key in mine for resource in around):
                    named += around
                    # A mapping on a registered consumer reads its stream.
                    named += [two for resource in around for two in resource.targets("StreamARN")]
        return {one.key for one in (*named, *_list_failed_sources(named, template))}


def _list_failed_sources(named: list[Resource], template: Template) -> Iterator[Resource]:
    """Yield the sources whose failure queue is among these: a reader of the queue fetches records from the source."""
    queues = {one.key for one in named if one.type == QUEUE}
    for other in template.around() if queues else ():
        for mapping in other.of_type(MAPPING):
            failures = mapping.targets("DestinationConfig", "OnFailure", "Destination")
            if any(one.key in queues for one in failures):
                yield from mapping.targets("EventSourceArn")


class RoleNobodyTakes(StreamingRule):
    """W9054: A role may read or write a stream, and nothing assumes the role."""

    id = "W9054"
    shortdesc = "A role may read or write a stream, and nothing assumes the role"
    description = (
        "No resource of the templates names the role, and no output exports it:"
        " nobody is meant to use its permissions."
    )
    source_url = "https://docs.aws.amazon.com/IAM/latest/UserGuide/best-practices.html"
    bad = _example("kinesis:GetRecords").partition("Count:\n")[0]
    good = _example("kinesis:GetRecords")

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the roles that allow streaming calls and that nothing names."""
        roles = template.of_type("AWS::IAM::Role")
        taken: set[tuple[str, str]] = set()
        for other in template.around() if roles else ():
            for one in other.resources.values():
                if one.type not in ("AWS::IAM::Policy", "AWS::IAM::RolePolicy"):
                    taken.update(two.key for two in one.neighbours)
            taken.update(two.key for two in other.list_named_in(other.body.get("Outputs", {})))
        for role in roles:
            services = {
                action.partition(":")[0]
                for statement in permissions_of(role).statements
                for action in statement.actions
            }
            if role.key not in taken and services & {"kinesis", "firehose", "sqs"}:
                yield Finding(
                    role,
                    f"Nothing assumes {role.name}, which may use {', '.join(sorted(services))}",
                )


def _statements(template: Template) -> Iterator[tuple[Resource, Statement]]:
    seen: set[tuple[object, ...]] = set()
    for other in template.around():
        for role in other.of_type("AWS::IAM::Role"):
            for statement in permissions_of(role).statements:
                key = (statement.owner.key, statement.members)
                if statement.owner.template.source == template.source and key not in seen:
                    seen.add(key)
                    yield template.resources[statement.owner.name], statement


def _serves_others(role: Resource, template: Template) -> bool:
    """Return whether anything but functions and policies names the role."""
    ours = ("AWS::Lambda::", "AWS::IAM::Policy", "AWS::IAM::RolePolicy", "AWS::IAM::ManagedPolicy")
    return any(
        role.key in {two.key for two in one.neighbours}
        for other in template.around()
        for one in other.resources.values()
        if not one.type.startswith(ours) and not one.type.startswith("Custom::")
    )


# The calls of a Kinesis source for Spark. A job that writes to the stream needs one of the puts instead.
_READS = ("kinesis:GetRecords", "kinesis:GetShardIterator")
_PUTS = ("kinesis:PutRecord", "kinesis:PutRecords")
_CLUSTER = """\
Clicks:
  Type: AWS::Kinesis::Stream
  Properties: {ShardCount: 1}
NodeRole:
  Type: AWS::IAM::Role
  Properties:
    AssumeRolePolicyDocument:
      Version: "2012-10-17"
      Statement: [{Effect: Allow, Principal: {Service: ec2.amazonaws.com}, Action: sts:AssumeRole}]
    Policies:
      - PolicyName: work
        PolicyDocument:
          Version: "2012-10-17"
          Statement: [{Effect: Allow, Action: ["kinesis:ListShards"], Resource: !GetAtt Clicks.Arn}]
Profile: {Type: 'AWS::IAM::InstanceProfile', Properties: {Roles: [!Ref NodeRole]}}
Cluster:
  Type: AWS::EMR::Cluster
  Properties: {Name: spark, ServiceRole: emr, JobFlowRole: !Ref Profile, Instances: {}}
Step:
  Type: AWS::EMR::Step
  Properties:
    Name: count
    ActionOnFailure: CONTINUE
    JobFlowId: !Ref Cluster
    HadoopJarStep: {Jar: command-runner.jar, Args: [spark-submit, job.py, --stream, !Ref Clicks]}
"""


class StepMayNotRead(StreamingRule):
    """E9060: A step is given a stream that the role of the cluster's nodes may neither read nor write."""

    id = "E9060"
    shortdesc = (
        "A step is given a stream that the role of the cluster's nodes may neither read nor write"
    )
    description = (
        "A step reads with the role of the cluster's instance profile. Without GetRecords and GetShardIterator on the"
        " stream it reads no shard of it, and fails minutes after the cluster has started."
    )
    source_url = "https://docs.aws.amazon.com/emr/latest/ManagementGuide/emr-iam-role-for-ec2.html"
    bad = _CLUSTER
    good = _CLUSTER.replace("kinesis:ListShards", "kinesis:*")

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the steps, also those inside a cluster, that can neither read nor write their stream."""
        for step in template.of_type("AWS::EMR::Step"):
            for cluster in step.targets("JobFlowId"):
                yield from self._of_step(step, ("HadoopJarStep", "Args"), cluster)
        for cluster in template.of_type("AWS::EMR::Cluster"):
            yield from self._of_step(cluster, ("Steps",), cluster)

    def _of_step(
        self, owner: Resource, members: tuple[str, ...], cluster: Resource
    ) -> Iterator[Finding]:
        role = self._role(cluster)
        if role is None:
            return
        permissions = permissions_of(role)
        for stream in owner.targets(*members):
            if stream.type != STREAM:
                continue
            lacking = permissions.lacks(_READS, stream)
            may_put = len(permissions.lacks(_PUTS, stream)) < len(_PUTS)
            if lacking and not may_put:
                yield Finding(
                    owner,
                    f"{owner.name} is given {stream.name}, on which {role.name}"
                    f" may not call {', '.join(lacking)}",
                    members,
                )

    def _role(self, cluster: Resource) -> Resource | None:
        for one in cluster.targets("JobFlowRole"):
            if one.type == "AWS::IAM::InstanceProfile":
                return role_of(one, "Roles")
        return None
