"""PutRecords for callers that batch, order and count by themselves: botocore's call at the producer's cost.

What succeeds goes over the producer's wire. What is refused, or cannot be sent, is asked of botocore, whose checks,
retries and errors the caller knows.
"""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ConnectionClosedError

from headrace.client.answers import results_of
from headrace.client.lanes import Lane
from headrace.client.put_requests import Bodies, Request
from headrace.client.receipts import Chunk
from headrace.client.wire import CBOR, NotSent, ServiceError, Wire, WireError


class QuickPuts:
    """Stands in for a botocore client of Kinesis that is asked for PutRecords alone. One thread at a time."""

    def __init__(self, client: Any, wire: Wire) -> None:
        """Take the client, and a wire to the same place."""
        self._client, self._wire = client, wire
        self._bodies: dict[str, Bodies] = {}
        self._lane = Lane(None)

    def put_records(self, *, StreamName: str, Records: list[dict[str, Any]]) -> dict[str, Any]:
        """Put records of `Data` and `PartitionKey`; see botocore's method.

        Raises botocore's errors; after a ConnectionClosedError the records may be in the stream.
        """
        if not (StreamName and Records and all(record["PartitionKey"] for record in Records)):
            # Nothing is sent: botocore says which parameter is empty.
            return self._client.put_records(StreamName=StreamName, Records=Records)
        if StreamName not in self._bodies:
            self._bodies[StreamName] = Bodies({"StreamName": StreamName})
        chunk = Chunk(_Nobody(), 0.0, 0)
        chunk.data = [record["Data"] for record in Records]
        chunk.keys = [record["PartitionKey"] for record in Records]
        request = Request([(chunk, self._lane)], aggregated=False)
        try:
            body = self._bodies[StreamName].body_of(request, None)
            results = results_of(self._wire.call("PutRecords", body, CBOR), len(Records))
        except (ServiceError, NotSent, UnicodeEncodeError):
            # It was not executed: botocore asks again, or says why not.
            return self._client.put_records(StreamName=StreamName, Records=Records)
        except (WireError, ValueError) as error:
            url = self._client.meta.endpoint_url
            raise ConnectionClosedError(endpoint_url=url, error=error) from error
        failed = sum(bool(result.get("ErrorCode")) for result in results)
        return {"FailedRecordCount": failed, "Records": results}


class _Nobody:
    """The owner of chunks that no receipt names."""

    def wait_for(self, receipt: Any, timeout_s: float | None) -> bool:
        """See `Owner`."""
        raise NotImplementedError

    def call_when_done(self, receipt: Any, callback: Any) -> None:
        """See `Owner`."""
        raise NotImplementedError
