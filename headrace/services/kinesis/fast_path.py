"""Answers requests before the generic decoder reads them: puts, reads and receives, and SubscribeToShard."""

from __future__ import annotations

import msgspec

from headrace.aws.calls.http import HttpRequest
from headrace.aws.protocols.service import RawAnswer
from headrace.services.kinesis import unreadable
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.consumers import subscribe
from headrace.services.kinesis.data_path import cbor_wire, json_wire
from headrace.services.kinesis.data_path.cbor_wire import CBOR
from headrace.services.kinesis.data_path.json_wire import JSON
from headrace.services.kinesis.queues import receiving

_PREFIX = "Kinesis_20131202."
_SUBSCRIBE = _PREFIX + "SubscribeToShard"
_USUAL_JSON = {
    _PREFIX + "PutRecords": json_wire.put_records,
    _PREFIX + "PutRecord": json_wire.put_record,
    _PREFIX + "GetRecords": json_wire.get_records,
}
_USUAL_CBOR = {
    _PREFIX + "PutRecords": cbor_wire.put_records,
    _PREFIX + "PutRecord": cbor_wire.put_record,
    _PREFIX + "GetRecords": cbor_wire.get_records,
}


class RawRequests:
    """The service's `raw` hook. Thread-safe."""

    def __init__(self, kinesis: Kinesis) -> None:
        self._kinesis = kinesis

    def answer_raw(self, request: HttpRequest) -> RawAnswer:
        """Return the response to a request, or None when its action must answer. Raises AwsError."""
        target = request.headers.get("x-amz-target", "")
        content_type = request.headers.get("content-type")
        call = request.call
        if call is None:
            return None
        if content_type not in (CBOR, JSON):
            refusal = unreadable.refusal_of(request)
            if refusal is not None:
                return refusal
        if target in _USUAL_JSON:
            if content_type == CBOR:
                return _USUAL_CBOR[target](self._kinesis, request.body, call)
            if content_type != JSON:
                return None
            try:
                return _USUAL_JSON[target](self._kinesis, request.body, call)
            except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
                return None
        operation = target.removeprefix(_PREFIX)
        if operation in receiving.RECEIVES and target != operation:
            return receiving.answer(self._kinesis, request, call, operation)
        return subscribe.answer(self._kinesis, request, call) if target == _SUBSCRIBE else None
