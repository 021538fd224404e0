"""The protocols through which services meet. Data crosses here; control crosses `ControlPlane`.

A service declares what it needs as one of these and is handed an implementation by `headrace.composition`;
no service imports another. All implementations are thread-safe.

Each file holds the ports of one subject; all are imported from here.
"""

from headrace.core.ports.control import ControlPlane, FidelityLevel, JobCredentials, any_credentials
from headrace.core.ports.deliveries import (
    BucketTarget,
    DeliveredObjects,
    NoDeliveries,
    ObjectDeliveries,
    ObjectOrder,
    TableTarget,
)
from headrace.core.ports.functions import (
    FunctionInvoker,
    FunctionNotFound,
    FunctionThrottled,
    InvokeResult,
)
from headrace.core.ports.messages import (
    BusEvent,
    EventBusSender,
    MessageQueues,
    QueueMessage,
    QueueReceiver,
    QueueSender,
    TopicPublisher,
)
from headrace.core.ports.objects import (
    BucketNotFound,
    KeyRefused,
    ObjectInfo,
    ObjectNotFound,
    ObjectStore,
)
from headrace.core.ports.permissions import (
    AnyKeys,
    CallerIdentity,
    Guard,
    Keys,
    KeyStates,
    NoGuard,
    PrincipalCheck,
    accept_principal,
)
from headrace.core.ports.schemas import SchemaCatalog, SchemaNotFound, TableSchema
from headrace.core.ports.streams import (
    AfterSequence,
    AtSequence,
    AtTimestamp,
    Latest,
    Position,
    ReadResult,
    ShardInfo,
    ShardNotFound,
    StreamNotFound,
    StreamReader,
    StreamRecord,
    TrimHorizon,
)
from headrace.core.ports.telemetry import LogLine, LogSink, Metric, MetricSink

__all__ = [
    "AfterSequence",
    "AnyKeys",
    "AtSequence",
    "AtTimestamp",
    "BucketNotFound",
    "BucketTarget",
    "BusEvent",
    "CallerIdentity",
    "ControlPlane",
    "DeliveredObjects",
    "EventBusSender",
    "FidelityLevel",
    "FunctionInvoker",
    "FunctionNotFound",
    "FunctionThrottled",
    "Guard",
    "InvokeResult",
    "JobCredentials",
    "KeyRefused",
    "KeyStates",
    "Keys",
    "Latest",
    "LogLine",
    "LogSink",
    "MessageQueues",
    "Metric",
    "MetricSink",
    "NoDeliveries",
    "NoGuard",
    "ObjectDeliveries",
    "ObjectInfo",
    "ObjectNotFound",
    "ObjectOrder",
    "ObjectStore",
    "Position",
    "PrincipalCheck",
    "QueueMessage",
    "QueueReceiver",
    "QueueSender",
    "ReadResult",
    "SchemaCatalog",
    "SchemaNotFound",
    "ShardInfo",
    "ShardNotFound",
    "StreamNotFound",
    "StreamReader",
    "StreamRecord",
    "TableSchema",
    "TableTarget",
    "TopicPublisher",
    "TrimHorizon",
    "accept_principal",
    "any_credentials",
]
