"""moto's services on a data directory, without the rest of the cloud: killed and started again in a millisecond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.dispatch import Gateway
from headrace.aws.signatures.access_keys import RoleSessions
from headrace.composition.foundation import build_moto
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import CallerIdentity, Metric
from headrace.moto.current_cloud import Connections
from headrace.store.database import Database
from tests.support.clients import client_of
from tests.support.clock import FakeClock

ACCOUNT = "000000000000"
REGION = "us-east-1"


# How moto asks whether a target exists: each does.
_LOOKS = (
    "DescribeStreamSummary",
    "DescribeDeliveryStream",
    "GetFunctionConfiguration",
    "HeadBucket",
)


class Outside:
    """The services that headrace owns, as far as moto's targets go: writes calls down, fails when told to.

    Calls of services that are moto's go there.
    """

    def __init__(self, lab: MotoLab) -> None:
        self._lab = lab
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        self.failures: list[AwsError] = []

    def call(
        self, service: str, operation: str, params: Mapping[str, Any], *,
        account: str | None = None, region: str | None = None, acting: CallerIdentity | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        if operation in _LOOKS:
            return {}
        if service not in ("kinesis", "firehose"):
            return self._lab.moto.call(
                service, operation, params, account=account or ACCOUNT, region=region or REGION
            )
        if self.failures:
            raise self.failures.pop(0)
        self.calls.append((service, operation, dict(params)))
        return {}


class MotoLab:
    """moto behind the gateway; a context manager."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
        sessions: RoleSessions | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.clock: Any = clock or FakeClock()
        self.ids = ids or Ids(1)
        self.sessions = sessions
        self.outside = Outside(self)
        self.invoked: list[tuple[str, bytes]] = []
        self.metrics: list[Metric] = []
        self.start()

    def start(self) -> None:
        self.database = Database(self.folder / "state.sqlite")
        parts = build_moto(
            database=self.database, clock=self.clock, ids=self.ids, sessions=self.sessions
        )
        self.moto, self.outbox, self.retention = parts.engine, parts.outbox, parts.retention
        self.executions, self.item_expiry = parts.executions, parts.item_expiry
        self.table_streams = parts.table_streams
        self.moto.connect(
            Connections(
                control=self.outside,
                functions=self._invoke,
                executions=parts.executions,
                metrics=self,
                stream_changed=parts.table_streams.changed,
            )
        )
        self.gateway = Gateway(
            clock=self.clock, ids=Ids(2), account=ACCOUNT, region=REGION, moto=self.moto
        )

    def _invoke(self, function_arn: str, payload: bytes, *, service: str, source_arn: str) -> None:
        self.invoked.append((function_arn, payload))

    def put(self, metrics: Sequence[Metric], *, account: str, region: str) -> None:
        """See `MetricSink.put`."""
        self.metrics += metrics

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Drop everything that is in memory."""
        self.executions.stop()
        self.executions.join()
        self.database.close()

    def restart(self) -> None:
        """Kill, and load what was stored."""
        self.kill()
        self.start()

    def size_bytes(self) -> int:
        """Return the size of the data directory."""
        return sum(file.stat().st_size for file in self.folder.iterdir())

    def client(self, service: str, *, account: str = ACCOUNT, region: str = REGION) -> Any:
        """Return a boto3 client; it validates nothing itself and never retries."""
        return client_of(service, self.handle, account=account, region=region)

    def handle(self, request: HttpRequest) -> HttpResponse:
        """Answer a raw request."""
        response = self.gateway.handle(request)
        assert isinstance(response, HttpResponse)
        return response
