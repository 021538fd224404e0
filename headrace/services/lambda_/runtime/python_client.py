"""Runs AWS's runtime client for a Python function: `python python_client.py HANDLER`, in the folder of its code.

On AWS, the ResponseURL of a custom resource has no port, so handlers open `HTTPSConnection(url.hostname)`. In this
process, port 443 of the cloud's own host is therefore the cloud's port, which speaks TLS too. It uses only the standard
library and awslambdaric.
"""

from __future__ import annotations

import os
import runpy
import socket
import sys
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


if __name__ == "__main__":
    # As with `python -m`: the folder of the code, not this file's.
    sys.path[0] = os.getcwd()  # noqa: PTH109 - pathlib is not loaded for every function
    lead_to_the_cloud(os.environ.get("AWS_ENDPOINT_URL", ""))
    runpy.run_module("awslambdaric", run_name="__main__", alter_sys=True)
