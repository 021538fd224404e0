"""A Firehose delivery stream from a Kinesis stream to an HTTP endpoint."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

import re
from collections.abc import Mapping

from aws_cdk import Token
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from cdk.parts.delivery_options import DeliveryOptions
from cdk.parts.delivery_resources import Stream, may_read
from cdk.parts.stream_delivery import StreamDelivery

# Source: API_HttpEndpointConfiguration, API_HttpEndpointRequestConfiguration, API_HttpEndpointBufferingHints. A local
# cloud also accepts http to its own machine; AWS refuses it when the stack is created.
_URL = r"https://.{1,992}|http://(localhost|127\.0\.0\.1)([:/].*)?"
MOST_ATTRIBUTES = 50


class HttpDelivery(StreamDelivery):
    """Posts the records of `source` to a URL, with GZIP; records that cannot be posted go to the error prefix."""

    MOST_MIB = 64

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        options: DeliveryOptions,
        *,
        url: str,
        access_key: secretsmanager.ISecret | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Create it. Raises ValueError for arguments that AWS would refuse.

        Args:
            scope: the parent construct.
            construct_id: its id in the parent.
            options: what all deliveries have; the buffer has up to 64 MiB.
            url: the endpoint's URL.
            access_key: a secret `{"api_key": "..."}`, which Firehose sends with every request.
            attributes: common attributes, which Firehose sends with every request.
        """
        _check(url, attributes or {})
        super().__init__(scope, construct_id, options)
        self.finish(
            [may_read(access_key)] if access_key else [],
            http_endpoint_destination_configuration=Stream.HttpEndpointDestinationConfigurationProperty(
                endpoint_configuration=Stream.HttpEndpointConfigurationProperty(
                    url=url, name=options.name
                ),
                request_configuration=Stream.HttpEndpointRequestConfigurationProperty(
                    content_encoding="GZIP",
                    common_attributes=[
                        Stream.HttpEndpointCommonAttributeProperty(
                            attribute_name=key, attribute_value=value
                        )
                        for key, value in (attributes or {}).items()
                    ],
                ),
                role_arn=self.role.role_arn,
                **self.backup(
                    "FailedDataOnly", Stream.BufferingHintsProperty, Stream.RetryOptionsProperty
                ),
                secrets_manager_configuration=self.login(access_key) if access_key else None,
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
