"""What AWS's schemas of resource types say: the properties that must be given, and those that name a resource.

Source: the schemas that AWS publishes for its resource types (cfn-lint ships them): `required`, and `primaryIdentifier`
where it is no read-only property.
"""

from __future__ import annotations

REQUIRED: dict[str, tuple[str, ...]] = {
    "AWS::CloudWatch::Dashboard": ("DashboardBody",),
    "AWS::DynamoDB::Table": ("KeySchema",),
    "AWS::EMR::Cluster": ("Instances", "JobFlowRole", "Name", "ServiceRole"),
    "AWS::EMR::InstanceGroupConfig": (
        "InstanceCount",
        "InstanceRole",
        "InstanceType",
        "JobFlowId",
    ),
    "AWS::EMR::SecurityConfiguration": ("SecurityConfiguration",),
    "AWS::EMR::Step": ("ActionOnFailure", "HadoopJarStep", "JobFlowId", "Name"),
    "AWS::EMRServerless::Application": ("ReleaseLabel", "Type"),
    "AWS::Glue::Database": ("CatalogId", "DatabaseInput"),
    "AWS::Glue::Table": ("CatalogId", "DatabaseName"),
    "AWS::IAM::InstanceProfile": ("Roles",),
    "AWS::IAM::ManagedPolicy": ("PolicyDocument",),
    "AWS::IAM::Policy": ("PolicyDocument", "PolicyName"),
    "AWS::IAM::Role": ("AssumeRolePolicyDocument",),
    "AWS::KMS::Alias": ("AliasName", "TargetKeyId"),
    "AWS::Kinesis::ResourcePolicy": ("ResourceArn", "ResourcePolicy"),
    "AWS::Kinesis::StreamConsumer": ("ConsumerName", "StreamARN"),
    "AWS::Lambda::Alias": ("FunctionName", "FunctionVersion", "Name"),
    "AWS::Lambda::EventInvokeConfig": ("FunctionName", "Qualifier"),
    "AWS::Lambda::EventSourceMapping": ("FunctionName",),
    "AWS::Lambda::Function": ("Code", "Role"),
    "AWS::Lambda::LayerVersion": ("Content",),
    "AWS::Lambda::LayerVersionPermission": ("Action", "LayerVersionArn", "Principal"),
    "AWS::Lambda::Permission": ("Action", "FunctionName", "Principal"),
    "AWS::Lambda::Url": ("AuthType", "TargetFunctionArn"),
    "AWS::Lambda::Version": ("FunctionName",),
    "AWS::Logs::LogStream": ("LogGroupName",),
    "AWS::S3::BucketPolicy": ("Bucket", "PolicyDocument"),
    "AWS::SNS::Subscription": ("Protocol", "TopicArn"),
    "AWS::SNS::TopicPolicy": ("PolicyDocument", "Topics"),
    "AWS::SQS::QueuePolicy": ("PolicyDocument", "Queues"),
    "AWS::SSM::Parameter": ("Type", "Value"),
}
IDENTIFIERS: dict[str, tuple[str, ...]] = {
    "AWS::CloudWatch::Alarm": ("AlarmName",),
    "AWS::CloudWatch::Dashboard": ("DashboardName",),
    "AWS::DynamoDB::Table": ("TableName",),
    "AWS::ECR::Repository": ("RepositoryName",),
    "AWS::Glue::Database": ("DatabaseName",),
    "AWS::Glue::Table": ("CatalogId", "DatabaseName", "Name"),
    "AWS::IAM::InstanceProfile": ("InstanceProfileName",),
    "AWS::IAM::Role": ("RoleName",),
    "AWS::KMS::Alias": ("AliasName",),
    "AWS::Kinesis::ResourcePolicy": ("ResourceArn",),
    "AWS::Kinesis::Stream": ("Name",),
    "AWS::KinesisFirehose::DeliveryStream": ("DeliveryStreamName",),
    "AWS::Lambda::EventInvokeConfig": ("FunctionName", "Qualifier"),
    "AWS::Lambda::Function": ("FunctionName",),
    "AWS::Logs::LogGroup": ("LogGroupName",),
    "AWS::Logs::LogStream": ("LogGroupName", "LogStreamName"),
    "AWS::S3::Bucket": ("BucketName",),
    "AWS::S3::BucketPolicy": ("Bucket",),
    "AWS::SSM::Parameter": ("Name",),
}
