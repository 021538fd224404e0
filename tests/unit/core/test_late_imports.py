"""Imports that wait: a cloud starts without an HTTP client, and whoever needs one gets it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.fresh_python import CLOUD, run_after

# As `headrace up` imports them.
COMMAND = "import sys, headrace.cli.run, headrace.cloud\n"


def run(program: str, *arguments: Path) -> None:
    """Run a program in a process of its own; it must not fail."""
    subprocess.run([sys.executable, "-c", program, *map(str, arguments)], check=True)


def test_a_cloud_starts_without_an_http_client() -> None:
    run_after(
        CLOUD,
        "import sys, headrace.cloud\n"
        "unwanted = {'urllib3.connection', 'urllib3.poolmanager', 'botocore.httpsession'}\n"
        "assert not unwanted & set(sys.modules), unwanted & set(sys.modules)\n",
    )


def test_clients_that_are_imported_afterwards_work() -> None:
    run_after(
        CLOUD,
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
        "else: raise AssertionError\n",
    )


def test_calls_in_the_process_leave_clients_alone_which_are_whole_afterwards() -> None:
    run_after(
        CLOUD,
        "import sys, headrace.cloud, headrace.moto.in_process\n"
        "unwanted = {f'botocore.{name}' for name in ('args', 'docs', 'regions', 'session', 'signers')}\n"
        "assert not unwanted & set(sys.modules), unwanted & set(sys.modules)\n"
        "import boto3, pydoc\n"
        "def client(service):\n"
        "    return boto3.client(service, region_name='us-east-1', aws_access_key_id='a',\n"
        "        aws_secret_access_key='b')\n"
        "asked = {'Bucket': 'b', 'Key': 'k'}\n"
        "assert 'Signature=' in client('s3').generate_presigned_url('get_object', Params=asked)\n"
        "text = pydoc.render_doc(client('glacier').upload_archive)\n"
        "assert 'automatically populated' in text\n",
    )


def test_late_modules_are_what_tests_may_replace_and_describe() -> None:
    run_after(
        CLOUD,
        "import headrace.cloud, urllib3\n"
        "urllib3.PoolManager = mine = object()\n"
        "assert urllib3.HTTPResponse and urllib3.PoolManager is mine\n",
    )
    run_after(
        CLOUD,
        "import headrace.cloud, urllib3\nassert {'PoolManager', 'request'} <= set(dir(urllib3))\n",
    )
    run_after(
        CLOUD,
        "import headrace.cloud, urllib3\n"
        "from unittest import mock\n"
        "assert mock.create_autospec(urllib3).request\n",
    )


MODULE = """
import pathlib, sys
from headrace.core.late_imports import imports_later
folder = pathlib.Path(sys.argv[1])
with imports_later({}, late={"late_module": {}}):
    sys.path.insert(0, str(folder))
    import late_module
"""


def test_a_late_module_keeps_functions_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "late_module.py").write_text(
        "def __getattr__(name):\n"
        "    if name == 'old': return 5\n"
        "    raise AttributeError(name)\n"
        "def __dir__(): return ['new', 'old']\n"
        "new = 6\n"
    )
    run(
        MODULE + "assert (late_module.old, late_module.new, late_module.old) == (5, 6, 5)\n"
        "assert not hasattr(late_module, 'other')\n"
        "assert dir(late_module) == ['new', 'old']\n",
        tmp_path,
    )


def test_a_late_module_that_fails_fails_again(tmp_path: Path) -> None:
    (tmp_path / "late_module.py").write_text(
        "import os\nnew = int(os.environ['HEADRACE_TEST_NUMBER'])\n"
    )
    run(
        MODULE + "import os\n"
        "for _ in range(2):\n"
        "    try: late_module.new\n"
        "    except KeyError: pass\n"
        "    else: raise AssertionError\n"
        "os.environ['HEADRACE_TEST_NUMBER'] = '7'\n"
        "assert late_module.new == 7\n",
        tmp_path,
    )


def test_encryption_comes_with_the_first_connection_that_is_encrypted(tmp_path: Path) -> None:
    run_after(
        COMMAND,
        "import asyncio, socket\n"
        "from pathlib import Path\n"
        "from headrace.aws.server.tls import Tls\n"
        "async def echo(reader, writer):\n"
        "    writer.write(await reader.readline())\n"
        "    writer.close()\n"
        "async def talk(**tls):\n"
        "    server = await asyncio.start_server(echo, sock=socket.create_server(('127.0.0.1', 0)),\n"
        "        ssl=tls.pop('context', None))\n"
        "    port = server.sockets[0].getsockname()[1]\n"
        "    reader, writer = await asyncio.open_connection('127.0.0.1', port, **tls)\n"
        "    writer.write(b'said\\n')\n"
        "    assert await reader.readline() == b'said\\n'\n"
        "    writer.close()\n"
        "    server.close()\n"
        "asyncio.run(talk())\n"
        "certificate = Tls(Path(sys.argv[1]), lambda: 'localhost')\n"
        "trusted = certificate.trust_file()\n"
        "assert not {'_ssl', 'urllib3.util.ssl_'} & set(sys.modules)\n"
        "from ssl import SSLSocket\n"
        "class Own(SSLSocket): pass\n"
        "import ssl\n"
        "assert issubclass(Own, ssl.SSLSocket) and ssl.SSLSocket.__module__ == 'ssl'\n"
        "client = ssl.create_default_context(cafile=str(trusted))\n"
        "asyncio.run(talk(context=certificate.context(), ssl=client, server_hostname='localhost'))\n"
        "wrapped = client.wrap_socket(socket.socket(), server_hostname='localhost')\n"
        "assert isinstance(wrapped, SSLSocket) and isinstance(wrapped, ssl.SSLSocket)\n"
        "assert not isinstance(socket.socket(), SSLSocket)\n",
        tmp_path,
    )


def test_a_stand_in_has_the_instances_of_its_class(tmp_path: Path) -> None:
    (tmp_path / "wanted.py").write_text("class Kind: pass\n")
    (tmp_path / "asking.py").write_text(
        "from wanted import Kind\ndef is_one(value): return isinstance(value, Kind)\n"
    )
    run(
        "import sys\n"
        "from headrace.core.late_imports import imports_later\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "with imports_later({'asking': ('wanted',)}, late={}):\n"
        "    import asking\n"
        "assert not asking.is_one(5) and 'wanted' not in sys.modules\n"
        "import wanted\n"
        "assert asking.is_one(wanted.Kind()) and not asking.is_one(5)\n",
        tmp_path,
    )


def test_idle_services_leave_encryption_documents_and_patterns_alone() -> None:
    run_after(
        COMMAND,
        "from headrace.composition.foundation import load_patches\n"
        "from headrace.moto.patching import start_empty\n"
        "start_empty(load_patches())\n"
        "unwanted = {'_ssl', 'urllib3.util', 're2', '_yaml', 'yaml.loader'} & set(sys.modules)\n"
        "assert not unwanted, unwanted\n",
    )


def test_the_late_code_of_requests_need_not_run_for_its_warnings_to_be_silent() -> None:
    run_after(
        CLOUD,
        "import warnings\n"
        "from headrace.composition.foundation import load_patches\n"
        "from headrace.moto.patching import start_empty\n"
        "start_empty(load_patches())\n"
        "with warnings.catch_warnings(record=True) as said:\n"
        "    warnings.simplefilter('always')\n"
        "    import requests.adapters\n"
        "assert not [one for one in said if 'SOCKS' in str(one.message)], said\n",
    )
