"""Runs AWS's runtime client for a Python function: `python python_client.py HANDLER`, in the folder of its code.

On AWS, the ResponseURL of a custom resource has no port, so handlers open `HTTPSConnection(url.hostname)`. In this
process, port 443 of the cloud's own host is therefore the cloud's port, which speaks TLS too. A function may bring a
botocore older than AWS_ENDPOINT_URL (1.31, of boto3 1.28): its clients would ask the real AWS, and get that address
here. It uses only the standard library and awslambdaric.
"""

from __future__ import annotations

import os
import runpy
import socket
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

HTTPS_PORTS = (443, "443", "https")


def lead_to_the_cloud(endpoint_url: str) -> None:
    """Resolve port 443 of the cloud's host to the cloud's own port."""
    cloud = urlsplit(endpoint_url)
    resolve = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *arguments: Any, **named: Any) -> Any:
        is_ours = host == cloud.hostname and port in HTTPS_PORTS and cloud.port is not None
        return resolve(host, cloud.port if is_ours else port, *arguments, **named)

    socket.getaddrinfo = getaddrinfo


# The first botocore that reads AWS_ENDPOINT_URL.
READS_ENDPOINT = (1, 31)


class OldBotocoreFinder:
    """Finds `botocore.session`, and gives the clients of an old one the cloud's endpoint."""

    def __init__(self, endpoint_url: str) -> None:
        self._endpoint_url = endpoint_url

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's specification, whose loader changes an old module; None for all other modules."""
        if name != "botocore.session" or not self._endpoint_url:
            return None
        spec = PathFinder.find_spec(name, path, target)
        version = getattr(sys.modules["botocore"], "__version__", "")
        parts = [int(part) for part in version.split(".")[:2] if part.isdigit()]
        if spec is not None and spec.loader is not None and tuple(parts) < READS_ENDPOINT:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                create = module.Session.create_client
                module.Session.create_client = _with_endpoint(create, self._endpoint_url)

            spec.loader.exec_module = exec_module
        return spec


def _with_endpoint(create: Callable[..., Any], endpoint_url: str) -> Callable[..., Any]:
    """Return `Session.create_client` with the cloud's endpoint where the caller names none."""

    def create_client(session: Any, service_name: str, *arguments: Any, **named: Any) -> Any:
        # The fifth argument after the service's name is the endpoint.
        if len(arguments) <= 4 and named.get("endpoint_url") is None:
            named["endpoint_url"] = endpoint_url
        return create(session, service_name, *arguments, **named)

    return create_client


if __name__ == "__main__":
    # As with `python -m`: the folder of the code, not this file's.
    sys.path[0] = os.getcwd()  # noqa: PTH109 - pathlib is not loaded for every function
    lead_to_the_cloud(os.environ.get("AWS_ENDPOINT_URL", ""))
    sys.meta_path.insert(0, OldBotocoreFinder(os.environ.get("AWS_ENDPOINT_URL", "")))
    runpy.run_module("awslambdaric", run_name="__main__", alter_sys=True)
