"""A small EMR cluster that waits for Spark steps."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

from aws_cdk import Annotations, Aws, CfnTag
from aws_cdk import aws_emr as emr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdk.parts.checks import check_between, check_name
from headrace.spark_submit.emr_releases import EMR, UnknownRelease, release_of

# EMR's managed service policy covers only resources with this tag.
MANAGED_TAG = "for-use-with-amazon-emr-managed-policies"
NAME_PATTERN = r"[^<>$|`]{1,256}"
RELEASE_PATTERN = r"emr-(spark-)?\d+\.\d+\.\d+"
INSTANCE_PATTERN = r"[a-z0-9-]+\.[a-z0-9]+"
SUBNET_PATTERN = r"subnet-[0-9a-f]{8,17}"
LOG_PREFIX = "logs/"
MAX_WORKERS = 50


class SparkCluster(Construct):
    """A primary node and `workers` core nodes with Spark; the cluster stays up without steps, until destroyed.

    Logs go to `logs/` in `bucket`. The nodes' role may write the logs, and read and write the `prefixes` of `bucket`;
    grant everything else. On AWS pass as `subnet_id` a subnet tagged `for-use-with-amazon-emr-managed-policies=true`,
    as EMR's managed policy requires; without it EMR takes the default VPC.

    Attributes:
        cluster: the cluster; its Ref is the cluster id.
        role: the nodes' role.
        release: EMR's release.
        instance_type: the nodes'.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        bucket: s3.IBucket,
        prefixes: list[str],
        release: str,
        instance_type: str = "m5.xlarge",
        workers: int = 1,
        subnet_id: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        check_name("A cluster's name", name, NAME_PATTERN)
        check_name("An EMR release", release, RELEASE_PATTERN)
        self._check_known(release)
        check_name("An instance type", instance_type, INSTANCE_PATTERN)
        check_between("A cluster's workers", workers, 1, MAX_WORKERS)
        if subnet_id is not None:
            check_name("A subnet's id", subnet_id, SUBNET_PATTERN)
        for prefix in prefixes:
            if not prefix.endswith("/") or prefix.startswith("/"):
                raise ValueError(f"A prefix must end, and not begin, with a slash: {prefix!r}.")
        self.release, self.instance_type = release, instance_type
        self.role = self._node_role(bucket, [LOG_PREFIX, *prefixes])
        profile = iam.InstanceProfile(self, "Profile", role=self.role)
        service_role = self._service_role()
        cluster = emr.CfnCluster
        self.cluster = cluster(
            self,
            "Cluster",
            name=name,
            release_label=release,
            applications=[cluster.ApplicationProperty(name="Spark")],
            log_uri=f"s3://{bucket.bucket_name}/{LOG_PREFIX}",
            instances=cluster.JobFlowInstancesConfigProperty(
                master_instance_group=cluster.InstanceGroupConfigProperty(
                    name="primary", instance_count=1, instance_type=instance_type
                ),
                core_instance_group=cluster.InstanceGroupConfigProperty(
                    name="core", instance_count=workers, instance_type=instance_type
                ),
                ec2_subnet_id=subnet_id,
                keep_job_flow_alive_when_no_steps=True,
                termination_protected=False,
            ),
            job_flow_role=profile.instance_profile_name,
            service_role=service_role.role_name,
            visible_to_all_users=True,
            tags=[CfnTag(key=MANAGED_TAG, value="true")],
        )
        self.cluster.node.add_dependency(self.role, service_role)

    def _check_known(self, label: str) -> None:
        """Refuse a release that EMR on EC2 does not have; warn about one that may be newer than this list."""
        try:
            release = release_of(label)
        except UnknownRelease as unknown:
            if not unknown.hint:
                raise ValueError(f"EMR has no release {label}.") from None
            Annotations.of(self).add_warning_v2(f"headrace:release:{label}", f"{unknown}.")
        else:
            if EMR not in release.services:
                raise ValueError(f"{label} is a release of EMR Serverless, not of EMR on EC2.")

    def _node_role(self, bucket: s3.IBucket, prefixes: list[str]) -> iam.Role:
        role = iam.Role(self, "NodeRole", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"],
                resources=[bucket.bucket_arn],
            )
        )
        role.add_to_policy(
            iam.PolicyStatement(
                actions=[
                    "s3:AbortMultipartUpload",
                    "s3:DeleteObject",
                    "s3:GetObject",
                    "s3:PutObject",
                ],
                resources=[bucket.arn_for_objects(f"{prefix}*") for prefix in prefixes],
            )
        )
        return role

    def _service_role(self) -> iam.Role:
        role = iam.Role(
            self,
            "ServiceRole",
            assumed_by=iam.ServicePrincipal("elasticmapreduce.amazonaws.com").with_conditions(
                {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
            ),
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name(
                    "service-role/AmazonEMRServicePolicy_v2"
                )
            ],
        )
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["iam:PassRole"],
                resources=[self.role.role_arn],
                conditions={"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
            )
        )
        return role
