"""A Firehose delivery stream from a Kinesis stream to an HTTP endpoint."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

import re
from collections.abc import Mapping

from aws_cdk import Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_kinesisfirehose as firehose
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from cdk.parts.stream_delivery import Buffering, StreamDelivery

# Source: API_HttpEndpointConfiguration, API_HttpEndpointRequestConfiguration, API_HttpEndpointBufferingHints. A local
# cloud also accepts http to its own machine; AWS refuses it when the stack is created.
_URL = r"https://.{1,992}|http://(localhost|127\.0\.0\.1)([:/].*)?"
MOST_MIB = 64
MOST_ATTRIBUTES = 50


class HttpDelivery(StreamDelivery):
    """Posts the records of `source` to a URL, with GZIP; records that cannot be posted go to the error prefix."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        source: kinesis.IStream,
        bucket: s3.IBucket,
        error_prefix: str,
        url: str,
        access_key: secretsmanager.ISecret | None = None,
        attributes: Mapping[str, str] | None = None,
        buffering: Buffering | None = None,
    ) -> None:
        """Create it. Raises ValueError for arguments that AWS would refuse.

        Args:
            scope: the parent construct.
            construct_id: its id in the parent.
            name: see `StreamDelivery`.
            source: see `StreamDelivery`.
            bucket: see `StreamDelivery`.
            error_prefix: see `StreamDelivery`.
            url: the endpoint's URL.
            access_key: a secret `{"api_key": "..."}`, which Firehose sends with every request.
            attributes: common attributes, which Firehose sends with every request.
            buffering: up to 64 MiB.
        """
        buffering = buffering or Buffering()
        buffering.check_size(MOST_MIB)
        _check(url, attributes or {})
        super().__init__(
            scope,
            construct_id,
            name=name,
            source=source,
            bucket=bucket,
            error_prefix=error_prefix,
        )
        stream, statements = firehose.CfnDeliveryStream, list[iam.PolicyStatement]()
        manager = None
        if access_key is not None:
            statements.append(
                iam.PolicyStatement(
                    actions=["secretsmanager:GetSecretValue"], resources=[access_key.secret_arn]
                )
            )
            manager = stream.SecretsManagerConfigurationProperty(
                enabled=True, secret_arn=access_key.secret_arn, role_arn=self.role.role_arn
            )
        self.finish(
            statements,
            http_endpoint_destination_configuration=stream.HttpEndpointDestinationConfigurationProperty(
                endpoint_configuration=stream.HttpEndpointConfigurationProperty(url=url, name=name),
                request_configuration=stream.HttpEndpointRequestConfigurationProperty(
                    content_encoding="GZIP",
                    common_attributes=[
                        stream.HttpEndpointCommonAttributeProperty(
                            attribute_name=key, attribute_value=value
                        )
                        for key, value in (attributes or {}).items()
                    ],
                ),
                buffering_hints=stream.BufferingHintsProperty(
                    size_in_m_bs=buffering.size_mib, interval_in_seconds=buffering.interval_s
                ),
                retry_options=stream.RetryOptionsProperty(duration_in_seconds=buffering.retry_s),
                role_arn=self.role.role_arn,
                s3_backup_mode="FailedDataOnly",
                s3_configuration=self.errors,
                cloud_watch_logging_options=self.logging,
                secrets_manager_configuration=manager,
            ),
        )


def _check(url: str, attributes: Mapping[str, str]) -> None:
    if not Token.is_unresolved(url) and re.fullmatch(_URL, url) is None:
        raise ValueError(f"An endpoint's URL must begin with https://, and {url!r} does not.")
    if len(attributes) > MOST_ATTRIBUTES:
        raise ValueError(f"There are at most {MOST_ATTRIBUTES} attributes, not {len(attributes)}.")
    for name, value in attributes.items():
        if not name.strip() or len(name) > 256 or len(value) > 1024:
            raise ValueError(
                f"An attribute's name has 1 to 256 characters, its value at most 1024; {name[:40]!r} has not."
            )
