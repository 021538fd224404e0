"""SubscribeToShard for calls inside this process; `consumers/subscribe.py` answers it over HTTP."""

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import SubscribeToShardInput
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.consumers.pushes import Push
from headrace.services.kinesis.consumers.subscribe import subscribe


@operation("SubscribeToShard")
def subscribe_to_shard(
    kinesis: Kinesis, call: Call, request: SubscribeToShardInput
) -> dict[str, Push]:
    """Start a subscription; EventStream yields its encoded messages. Source: API_SubscribeToShard."""
    return {"EventStream": subscribe(kinesis, call, request, cbor=False)}
