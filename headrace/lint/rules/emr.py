"""The rule for EMR steps: the role of the nodes must be able to read the stream that a step is given."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lint.permissions import permissions_of, role_of
from headrace.lint.rule import Finding, StreamingRule
from headrace.lint.sources import STREAM
from headrace.lint.template import Resource, Template

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
