"""Devices: their policy, the rule that takes their readings into a stream, and the function that watches them."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

from aws_cdk import CfnOutput, Duration, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_iot as iot
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from cdk.parts.event_stream import EventStream
from cdk.parts.stream_function import StreamFunction

CODE = Path(__file__).resolve().parents[2] / "lambdas" / "watch"
WINDOW_S = 10
KEPT_DAYS = 14
# Names are in IoT's policy and rule: a device publishes below its own client id.
TOPIC = "devices/+/telemetry"
SQL = f"SELECT *, topic(2) AS device FROM '{TOPIC}'"


class DevicesStack(Stack):
    """From MQTT to a stream, and from there to alerts.

    Outputs: TelemetryStreamName, DevicePolicyName, RuleName, AlertsTopicArn, AlertsQueueUrl, RuleErrorsQueueUrl,
    WatchFunctionName, FailureQueueUrl.

    Attributes:
        telemetry: the stream of readings, 2 shards; the partition key is the device.
    """

    def __init__(self, scope: Construct, construct_id: str, **kwargs: Any) -> None:
        super().__init__(scope, construct_id, **kwargs)
        telemetry = EventStream(self, "Telemetry", name="device-telemetry", shard_count=2)
        telemetry.output("TelemetryStreamName", "readings come out here")
        self.telemetry = telemetry.stream
        self._add_policy()
        self._add_rule()
        self._add_watch()

    def _add_policy(self) -> None:
        """Let a device connect as itself and publish below its own name; attach it to certificates."""

        def arn(resource: str) -> str:
            return self.format_arn(service="iot", resource=resource)

        # `${iot:ClientId}` is a variable of IoT's policies.
        statements = [
            {"Effect": "Allow", "Action": "iot:Connect", "Resource": arn("client/device-*")},
            {
                "Effect": "Allow",
                "Action": "iot:Publish",
                "Resource": arn("topic/devices/${iot:ClientId}/telemetry"),
            },
        ]
        document = {"Version": "2012-10-17", "Statement": statements}
        policy = iot.CfnPolicy(self, "Policy", policy_name="devices", policy_document=document)
        CfnOutput(self, "DevicePolicyName", value=policy.ref)

    def _add_rule(self) -> None:
        errors = self._queue("RuleErrors")
        role = iam.Role(self, "RuleRole", assumed_by=iam.ServicePrincipal("iot.amazonaws.com"))
        self.telemetry.grant(role, "kinesis:PutRecord")
        errors.grant(role, "sqs:SendMessage")
        rule = iot.CfnTopicRule(
            self,
            "Rule",
            rule_name="device_telemetry",
            topic_rule_payload=iot.CfnTopicRule.TopicRulePayloadProperty(
                sql=SQL,
                aws_iot_sql_version="2016-03-23",
                actions=[
                    iot.CfnTopicRule.ActionProperty(
                        kinesis=iot.CfnTopicRule.KinesisActionProperty(
                            stream_name=self.telemetry.stream_name,
                            partition_key="${topic(2)}",
                            role_arn=role.role_arn,
                        )
                    )
                ],
                error_action=iot.CfnTopicRule.ActionProperty(
                    sqs=iot.CfnTopicRule.SqsActionProperty(
                        queue_url=errors.queue_url, role_arn=role.role_arn, use_base64=False
                    )
                ),
            ),
        )
        # IoT tries the role when the rule is made.
        rule.node.add_dependency(role)
        CfnOutput(self, "RuleName", value=rule.ref)
        CfnOutput(self, "RuleErrorsQueueUrl", value=errors.queue_url)

    def _add_watch(self) -> None:
        alerts = sns.Topic(self, "Alerts", topic_name="device-alerts", enforce_ssl=True)
        alerts.apply_removal_policy(RemovalPolicy.DESTROY)
        queue = self._queue("AlertsQueue")
        alerts.add_subscription(subscriptions.SqsSubscription(queue, raw_message_delivery=True))
        table = dynamodb.Table(
            self,
            "Devices",
            partition_key=dynamodb.Attribute(name="shard_id", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="device", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            removal_policy=RemovalPolicy.DESTROY,
        )
        watch = StreamFunction(
            self,
            "Watch",
            name="watch",
            code=CODE,
            source=self.telemetry,
            environment={"TABLE": table.table_name, "TOPIC": alerts.topic_arn},
            batch_size=1000,
            batching_window_s=1,
            retry_attempts=3,
            tumbling_window_s=WINDOW_S,
        )
        table.grant(watch.role, "dynamodb:Query", "dynamodb:BatchWriteItem")
        alerts.grant_publish(watch.role)
        CfnOutput(self, "AlertsTopicArn", value=alerts.topic_arn)
        CfnOutput(self, "AlertsQueueUrl", value=queue.queue_url)
        CfnOutput(self, "WatchFunctionName", value=watch.function.function_name)
        CfnOutput(self, "FailureQueueUrl", value=watch.failures.queue_url)

    def _queue(self, name: str) -> sqs.Queue:
        return sqs.Queue(
            self,
            name,
            retention_period=Duration.days(KEPT_DAYS),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            removal_policy=RemovalPolicy.DESTROY,
        )
