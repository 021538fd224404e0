"""What applications import: a producer and a consumer group for Kinesis, on AWS and on headrace alike.

For tests on headrace, there are its faults and its permissions report too. Nothing here imports the cloud itself.
A name's module is imported when the name is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.client.async_producer import AsyncProducer as AsyncProducer
    from headrace.client.group import ConsumerGroup as ConsumerGroup
    from headrace.client.group import GroupError as GroupError
    from headrace.client.hash_keys import Salt as Salt
    from headrace.client.leases.dynamodb import DynamoDbLeaseStore as DynamoDbLeaseStore
    from headrace.client.leases.stores import FileLeaseStore as FileLeaseStore
    from headrace.client.leases.stores import MemoryLeaseStore as MemoryLeaseStore
    from headrace.client.processing import Poison as Poison
    from headrace.client.processing import Processor as Processor
    from headrace.client.processing import QueueConsumer as QueueConsumer
    from headrace.client.processing import run as run
    from headrace.client.producer import Producer as Producer
    from headrace.client.receipts import BufferFull as BufferFull
    from headrace.client.receipts import PutError as PutError
    from headrace.client.receipts import PutsFailed as PutsFailed
    from headrace.client.receipts import Receipt as Receipt
    from headrace.client.receipts import Receipts as Receipts
    from headrace.client.records import Batch as Batch
    from headrace.client.records import Record as Record

_HOME = {
    "AsyncProducer": "async_producer",
    "Batch": "records",
    "BufferFull": "receipts",
    "ConsumerGroup": "group",
    "DynamoDbLeaseStore": "leases.dynamodb",
    "FileLeaseStore": "leases.stores",
    "GroupError": "group",
    "MemoryLeaseStore": "leases.stores",
    "Poison": "processing",
    "Processor": "processing",
    "Producer": "producer",
    "PutError": "receipts",
    "PutsFailed": "receipts",
    "QueueConsumer": "processing",
    "Receipt": "receipts",
    "Receipts": "receipts",
    "Record": "records",
    "Salt": "hash_keys",
    "run": "processing",
}

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
