"""The base of all clouds in the test's own process: pages and faults without a socket, options, temporary folders."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, cast

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.cloud import Cloud
from headrace.core.arn import is_account_id
from headrace.store.disk_space import free_bytes
from headrace.testing import transport
from headrace.testing.access import CloudAccess
from headrace.testing.waiting import NoSuchPage

# Nobody listens on this port: a request that needs a socket fails at once, and never reaches another cloud.
NO_PORT = 1
_PREFIX = "headrace-test-"
# A file system in memory. In containers it often has only 64 MB.
_MEMORY = Path("/dev/shm")
_MUCH_BYTES = 1 << 30
_OPTIONS = frozenset(
    {
        "durability",
        "strict",
        "state_delay_ms",
        "limits",
        "log_group_events",
        "log_group_mib",
        "spark",
        "iam",
        "mqtt",
        "mqtt_port",
        "mqtt_tls_port",
    }
)


class UnknownOption(TypeError):
    """An unknown option; the text is one sentence."""


class InProcessAccess(CloudAccess):
    """A cloud in this process, reached without a socket.

    Attributes:
        cloud: the cloud itself.
        data_dir: its folder.
    """

    cloud: Cloud
    data_dir: Path

    def handle(self, request: HttpRequest) -> HttpResponse:
        """Answer a request in process; the body comes back as bytes."""
        return transport.whole(self.cloud.handle(request), request)

    def page(self, path: str) -> Any:
        """See `CloudAccess.page`."""
        where, _, query = path.partition("?")
        headers = {"host": "localhost", "accept": "application/json"}
        answer = self.handle(HttpRequest("GET", f"/_headrace/{where}", query, headers))
        if answer.status != 200:
            raise NoSuchPage(f"/_headrace/{path} answers {answer.status}.")
        return json.loads(cast("bytes", answer.body))

    def add_fault(self, rule: dict[str, Any]) -> None:
        """Add a fault on demand, as `headrace faults add` does; see docs/services.md."""
        self.cloud.gateway.faults.add(rule)

    @property
    def can_advance(self) -> bool:
        """See `CloudAccess.can_advance`."""
        return True

    @property
    def runs_folders(self) -> bool:
        """See `CloudAccess.runs_folders`."""
        return True


def temporary_folder() -> Path:
    """Make a folder for a test's data: below TMPDIR if set, else in memory if there is enough."""
    parent = None
    with contextlib.suppress(OSError):
        if "TMPDIR" not in os.environ and free_bytes(_MEMORY) >= _MUCH_BYTES:
            parent = _MEMORY
    return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))


def check_options(account: str, options: dict[str, Any]) -> None:
    """Raise UnknownOption for an option that a test's cloud does not have."""
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        known = ", ".join(["account", "region", "data_dir", "seed", *sorted(_OPTIONS)])
        raise UnknownOption(f"A cloud has no option {unknown[0]!r}; it has {known}.")
    if not is_account_id(account):
        raise UnknownOption(f"An account is 12 digits, not {account!r}.")
