"""A Firehose delivery stream from a Kinesis stream to Splunk's HTTP event collector."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from cdk.parts.checks import check_between, check_name
from cdk.parts.delivery_options import DeliveryOptions
from cdk.parts.delivery_resources import Stream, may_read
from cdk.parts.stream_delivery import StreamDelivery

# Source: API_SplunkDestinationConfiguration, API_SplunkBufferingHints.
MOST_INTERVAL_S = 60
ACK_S = (180, 600)
ENDPOINT_TYPES = ("Raw", "Event")


class SplunkDelivery(StreamDelivery):
    """Sends the records of `source` to a collector and waits for its acknowledgement."""

    MOST_MIB = 5

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        options: DeliveryOptions,
        *,
        hec_endpoint: str,
        hec_token: secretsmanager.ISecret,
        endpoint_type: str = "Event",
        acknowledged_within_s: int = 180,
    ) -> None:
        """Create it. Raises ValueError for arguments that AWS would refuse.

        Args:
            scope: the parent construct.
            construct_id: its id in the parent.
            options: what all deliveries have; the buffer has up to 5 MiB and 60 seconds.
            hec_endpoint: the collector's URL, without the path of its API.
            hec_token: a secret `{"hec_token": "..."}`; the token needs indexer acknowledgement.
            endpoint_type: `Raw` or `Event`.
            acknowledged_within_s: how long Firehose waits for the acknowledgement.
        """
        check_between("A buffering interval", options.interval_s, 0, MOST_INTERVAL_S, "seconds")
        check_between("The wait for an acknowledgement", acknowledged_within_s, *ACK_S, "seconds")
        check_name("A collector's URL", hec_endpoint, r"https?://\S{1,2040}")
        if endpoint_type not in ENDPOINT_TYPES:
            raise ValueError(f"An endpoint's type must be Raw or Event, not {endpoint_type!r}.")
        super().__init__(scope, construct_id, options)
        self.finish(
            [may_read(hec_token)],
            splunk_destination_configuration=Stream.SplunkDestinationConfigurationProperty(
                hec_endpoint=hec_endpoint,
                hec_endpoint_type=endpoint_type,
                hec_acknowledgment_timeout_in_seconds=acknowledged_within_s,
                **self.backup(
                    "FailedEventsOnly",
                    Stream.SplunkBufferingHintsProperty,
                    Stream.SplunkRetryOptionsProperty,
                ),
                secrets_manager_configuration=self.login(hec_token),
            ),
        )
