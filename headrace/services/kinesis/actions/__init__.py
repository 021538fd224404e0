"""Kinesis's operations. An operation that is not listed answers UnknownOperationException."""

from headrace.services.kinesis.actions.account_settings import (
    describe_account_settings,
    describe_limits,
    update_account_settings,
)
from headrace.services.kinesis.actions.channels import (
    create_channel,
    delete_channel,
    describe_channel,
    list_channels,
    update_channel,
)
from headrace.services.kinesis.actions.describe_stream import (
    describe_stream,
    describe_stream_summary,
)
from headrace.services.kinesis.actions.get_records import get_records
from headrace.services.kinesis.actions.get_shard_iterator import get_shard_iterator
from headrace.services.kinesis.actions.list_shards import list_shards
from headrace.services.kinesis.actions.put_record import put_record
from headrace.services.kinesis.actions.put_records import put_records
from headrace.services.kinesis.actions.queue_records import (
    acknowledge_dead_letter_queue_records,
    acknowledge_queue_records,
    receive_dead_letter_queue_records,
    receive_queue_records,
    restore_dead_letter_queue_records,
    update_dead_letter_queue_records_visibility,
    update_queue_records_visibility,
)
from headrace.services.kinesis.actions.queues import (
    create_queue,
    delete_queue,
    describe_queue,
    list_queues,
    update_queue,
)
from headrace.services.kinesis.actions.resource_policy import (
    delete_resource_policy,
    get_resource_policy,
    put_resource_policy,
)
from headrace.services.kinesis.actions.shards import merge_shards, split_shard, update_shard_count
from headrace.services.kinesis.actions.stream_consumers import (
    deregister_stream_consumer,
    describe_stream_consumer,
    list_stream_consumers,
    register_stream_consumer,
)
from headrace.services.kinesis.actions.stream_settings import (
    decrease_stream_retention_period,
    disable_enhanced_monitoring,
    enable_enhanced_monitoring,
    increase_stream_retention_period,
    start_stream_encryption,
    stop_stream_encryption,
    update_max_record_size,
    update_stream_mode,
    update_stream_record_distribution_strategy,
    update_stream_warm_throughput,
)
from headrace.services.kinesis.actions.streams import create_stream, delete_stream, list_streams
from headrace.services.kinesis.actions.subscribe_to_shard import subscribe_to_shard
from headrace.services.kinesis.actions.tags import (
    add_tags_to_stream,
    list_tags_for_resource,
    list_tags_for_stream,
    remove_tags_from_stream,
    tag_resource,
    untag_resource,
)

ACTIONS = [
    acknowledge_dead_letter_queue_records,
    acknowledge_queue_records,
    add_tags_to_stream,
    create_channel,
    create_queue,
    create_stream,
    decrease_stream_retention_period,
    delete_channel,
    delete_queue,
    delete_resource_policy,
    delete_stream,
    deregister_stream_consumer,
    describe_account_settings,
    describe_channel,
    describe_limits,
    describe_queue,
    describe_stream,
    describe_stream_consumer,
    describe_stream_summary,
    disable_enhanced_monitoring,
    enable_enhanced_monitoring,
    get_records,
    get_resource_policy,
    get_shard_iterator,
    increase_stream_retention_period,
    list_channels,
    list_queues,
    list_shards,
    list_stream_consumers,
    list_streams,
    list_tags_for_resource,
    list_tags_for_stream,
    merge_shards,
    put_record,
    put_records,
    put_resource_policy,
    receive_dead_letter_queue_records,
    receive_queue_records,
    register_stream_consumer,
    remove_tags_from_stream,
    restore_dead_letter_queue_records,
    split_shard,
    start_stream_encryption,
    stop_stream_encryption,
    subscribe_to_shard,
    tag_resource,
    untag_resource,
    update_account_settings,
    update_channel,
    update_dead_letter_queue_records_visibility,
    update_max_record_size,
    update_queue,
    update_queue_records_visibility,
    update_shard_count,
    update_stream_mode,
    update_stream_record_distribution_strategy,
    update_stream_warm_throughput,
]
