"""Imports that wait: a cloud starts without an HTTP client, and whoever needs one gets it."""

from __future__ import annotations

import subprocess
import sys


def run(program: str) -> None:
    """Run a program in a process of its own; it must not fail."""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_cloud_starts_without_an_http_client() -> None:
    run(
        "import sys, headrace.cloud\n"
        "unwanted = {'urllib3.connection', 'urllib3.poolmanager', 'botocore.httpsession'}\n"
        "assert not unwanted & set(sys.modules), unwanted & set(sys.modules)\n"
    )


def test_clients_that_are_imported_afterwards_work() -> None:
    run(
        "import headrace.cloud, botocore.utils, urllib3, boto3\n"
        "from botocore.awsrequest import HeadersDict\n"
        "from botocore.exceptions import EndpointConnectionError\n"
        "get = botocore.utils.get_encoding_from_headers\n"
        "assert get(HeadersDict({'content-type': 'text/plain; charset=utf-8'})) == 'utf-8'\n"
        "assert urllib3.PoolManager is urllib3.poolmanager.PoolManager and urllib3.__version__\n"
        "assert not hasattr(urllib3, 'no_such_name')\n"
        "client = boto3.client('sts', endpoint_url='http://127.0.0.1:1', region_name='us-east-1',\n"
        "    aws_access_key_id='a', aws_secret_access_key='b')\n"
        "try: client.get_caller_identity()\n"
        "except EndpointConnectionError: pass\n"
        "else: raise AssertionError\n"
    )
