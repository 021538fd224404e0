"""The kinds of destinations that delivery streams can have."""

from headrace.services.firehose.destinations.base import Destination
from headrace.services.firehose.destinations.s3 import S3Destination

DESTINATIONS: dict[str, Destination] = {
    destination.kind: destination for destination in (S3Destination(),)
}
