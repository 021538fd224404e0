"""Firehose's operations."""

from headrace.services.firehose.actions.delivery_streams import (
    create_delivery_stream,
    delete_delivery_stream,
    describe_delivery_stream,
    list_delivery_streams,
    list_tags_for_delivery_stream,
    start_delivery_stream_encryption,
    stop_delivery_stream_encryption,
    tag_delivery_stream,
    untag_delivery_stream,
    update_destination,
)
from headrace.services.firehose.actions.puts import put_record, put_record_batch

ACTIONS = [
    create_delivery_stream,
    delete_delivery_stream,
    describe_delivery_stream,
    list_delivery_streams,
    list_tags_for_delivery_stream,
    put_record,
    put_record_batch,
    start_delivery_stream_encryption,
    stop_delivery_stream_encryption,
    tag_delivery_stream,
    untag_delivery_stream,
    update_destination,
]
