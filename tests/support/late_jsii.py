"""jsii that starts Node.js at the first use of a construct, not at the import of aws_cdk: each worker imports it.

It synthesises without the CDK's own check of templates, which takes eight seconds of a processor: a test adds it.
"""

from __future__ import annotations

import os
from typing import Any

from jsii._kernel.providers import process
from jsii._kernel.types import LoadRequest, LoadResponse


class _LateNode(process._NodeProcess):
    """Keeps the requests to load an assembly until there is another one."""

    def __init__(self) -> None:
        super().__init__()
        self._loads: list[LoadRequest] | None = []

    def start(self) -> None:
        """Wait for the first request."""

    def stop(self) -> None:
        """Stop Node.js, if it runs."""
        if self._loads is None:
            super().stop()

    def send(self, request: Any, response_type: Any) -> Any:
        """Send a request, and before the first one what was kept."""
        if self._loads is not None:
            if isinstance(request, LoadRequest):
                self._loads.append(request)
                return LoadResponse(assembly=request.name, types=0)
            loads, self._loads = self._loads, None
            super().start()
            for load in loads:
                super().send(load, LoadResponse)
        return super().send(request, response_type)


def install() -> None:
    """Have the kernel, which is made at jsii's first import, started late."""
    process._NodeProcess = _LateNode
    os.environ["CDK_VALIDATION"] = "false"
