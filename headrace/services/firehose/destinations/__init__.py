"""The kinds of destinations of delivery streams, each in its own modules."""

from headrace.services.firehose.destinations.common import Destination
from headrace.services.firehose.destinations.http import HttpEndpointDestination
from headrace.services.firehose.destinations.iceberg import IcebergDestination
from headrace.services.firehose.destinations.opensearch import SEARCH_DESTINATIONS
from headrace.services.firehose.destinations.ordered_tables import OrderedTableDestination
from headrace.services.firehose.destinations.redshift import RedshiftDestination
from headrace.services.firehose.destinations.s3 import OrderedDestination, S3Destination
from headrace.services.firehose.destinations.splunk import SplunkDestination

_ALL: tuple[Destination, ...] = (
    S3Destination(),
    HttpEndpointDestination(),
    *SEARCH_DESTINATIONS,
    SplunkDestination(),
    IcebergDestination(),
    RedshiftDestination(),
    OrderedDestination(),
    OrderedTableDestination(),
)
DESTINATIONS: dict[str, Destination] = {destination.kind: destination for destination in _ALL}
