"""While the state of moto's services is loaded: said, waited for, and not for ever."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest
from headrace.cli.running_cloud import moto_phrase
from headrace.moto import engine, patching
from headrace.moto.requests import preparation
from headrace.moto.storage.storage import MotoStorage
from tests.api.kinesis.live import LiveCloud
from tests.support.cloud import InProcessCloud
from tests.support.fresh_python import CLOUD, run_after
from tests.support.moto_lab import MotoLab
from tests.support.server import wait_until
from tests.unit.moto.test_storage import old_data_directory


class Gate:
    """Holds loading up until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        load = MotoStorage.load

        def held_up(kept: MotoStorage, *args: Any) -> None:
            kept.progress.done, kept.progress.all = 1_200, 50_000
            self.reached.set()
            self.opened.wait(30)
            load(kept, *args)

        monkeypatch.setattr(MotoStorage, "load", held_up)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


def health(cloud: InProcessCloud) -> dict[str, Any]:
    return json.loads(bytes(cloud.handle(HttpRequest("GET", "/_headrace/health")).body))


def test_health_says_loading_with_a_count_and_a_call_waits_and_succeeds(tmp_path: Path, gate: Gate):
    with InProcessCloud(tmp_path / "data") as cloud:
        assert gate.reached.wait(30)
        page = health(cloud)
        assert (page["status"], page["moto"]) == ("loading", "loading")
        assert page["moto_loading"] == {"done": 1_200, "all": 50_000}
        assert moto_phrase(page) == "loading, 1,200 of 50,000"
        answers = list[Any]()
        waiting = threading.Thread(
            target=lambda: answers.append(cloud.client("sqs").create_queue(QueueName="q")),
            daemon=True,
        )
        waiting.start()
        # What headrace owns does not wait.
        assert cloud.client("kinesis").list_streams()["StreamNames"] == []
        assert answers == []
        gate.opened.set()
        waiting.join(30)
        assert answers[0]["QueueUrl"].endswith("/q")
        page = wait_until(lambda: (found := health(cloud))["status"] == "ok" and found)
        assert page["moto"] == "ready"
        assert moto_phrase(page) == "ready"


def test_a_started_cloud_answers_for_itself_before_it_loads_moto(tmp_path: Path, gate: Gate):
    gate.opened.set()
    with LiveCloud(tmp_path / "data", warms_up=False) as live:
        assert live.client().list_streams()["StreamNames"] == []
        assert live.cloud.moto.status()["moto"] == "loading"
        assert not gate.reached.is_set()
        live.cloud.warm_up()
        wait_until(lambda: live.cloud.moto.status()["moto"] == "ready")


def test_a_call_does_not_wait_for_ever(tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(engine, "LONGEST_WAIT_S", 0.05)
    with InProcessCloud(tmp_path / "data") as cloud:
        assert gate.reached.wait(30)
        with pytest.raises(ClientError) as caught:
            cloud.client("sqs").list_queues()
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        assert "loading the state of moto's services: 1200 of 50000" in str(caught.value)
        gate.opened.set()


def test_a_request_that_takes_long_does_not_hang_the_others(
    lab: MotoLab, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(engine, "LONGEST_WAIT_S", 0.05)
    lab.client("sqs").list_queues()
    errors = list[str]()

    def ask() -> None:
        try:
            lab.client("sqs").create_queue(QueueName="q")
        except ClientError as error:
            errors.append(str(error))

    with engine.MOTO_LOCK:
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(30)
    assert "busy with another request" in errors[0]


def test_a_load_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: Any) -> None:
        raise OSError("the file is no database")

    monkeypatch.setattr(MotoStorage, "load", broken)
    with InProcessCloud(tmp_path / "data") as cloud:
        page = wait_until(lambda: (found := health(cloud))["status"] == "failed" and found)
        assert moto_phrase(page) == "failed: OSError: the file is no database"
        with pytest.raises(ClientError, match="the file is no database"):
            cloud.client("sqs").list_queues()


def test_up_waits_for_an_old_journal(tmp_path: Path):
    old_data_directory(tmp_path / "data")
    command = [sys.executable, "-m", "headrace.cli.main"]
    there = ["--data-dir", str(tmp_path / "data")]
    up = subprocess.run(
        [*command, "up", "--detach", "--port", "0", *there], capture_output=True, text=True, timeout=60
    )  # fmt: skip
    try:
        assert up.returncode == 0, up.stderr
        assert "headrace is listening on" in up.stdout
        status = subprocess.run(
            [*command, "status", "--json", *there], capture_output=True, text=True, timeout=60
        )
        assert json.loads(status.stdout)["moto"] == "ready"
    finally:
        subprocess.run([*command, "down", *there], capture_output=True, timeout=60)


def test_who_imports_a_service_holds_the_order_of_requests_first(
    lab: MotoLab, monkeypatch: pytest.MonkeyPatch
):
    """Who holds that order may have to import; a first request the other way round would wait for it for ever."""
    import moto.backends

    lab.client("sqs").list_queues()
    get_backend, owned = moto.backends.get_backend, list[bool]()

    def noted(name: Any) -> Any:
        owned.append(engine.MOTO_LOCK._is_owned())  # type: ignore[attr-defined]
        return get_backend(name)

    monkeypatch.setattr(moto.backends, "get_backend", noted)
    monkeypatch.setattr(preparation, "URL_TABLES", {})
    preparation.method_for.cache_clear()
    lab.client("kms").list_keys()
    assert owned
    assert all(owned)


def test_building_a_cloud_does_not_import_moto() -> None:
    """moto takes a second to import: a cloud answers for its own services before."""
    run_after(CLOUD, "assert not [name for name in sys.modules if name.split('.')[0] == 'moto']\n")


def _run_in_empty_moto(program: str) -> None:
    """Run a program in a process with moto, empty, and `looked`: the modules that were looked for."""
    start = (
        "import sys\n"
        "looked = []\n"
        "class Looker:\n"
        "    def find_spec(name, *_): looked.append(name)\n"
        "sys.meta_path.insert(0, Looker)\n"
        "from headrace.composition.foundation import load_patches\n"
        "from headrace.moto.patching import start_empty\n"
        "start_empty(load_patches())\n"
    )
    run_after(start, program)


def test_a_large_library_comes_with_its_first_use() -> None:
    """cryptography takes 9 MB, AWS's policies take as much, and few requests to IAM and SNS need them."""
    _run_in_empty_moto(
        "import moto.iam.models as iam, moto.sns.models as sns\n"
        "assert 'moto.iam.policy_validation' in looked\n"
        "assert not {'cryptography', 'moto.iam.aws_managed_policies'} & set(looked)\n"
        "try: iam.x509.load_pem_x509_certificate(b'no certificate', iam.default_backend())\n"
        "except ValueError: pass\n"
        "else: raise AssertionError\n"
        "from cryptography import x509\n"
        "assert iam.x509.Certificate is x509.Certificate\n"
        "common = sns.NameOID.COMMON_NAME\n"
        "assert sns.cryptography.x509.Name([sns.NameAttribute(common, 'sns')]) == sns.Name(\n"
        "    [x509.NameAttribute(x509.NameOID.COMMON_NAME, 'sns')])\n"
    )


def test_the_grammar_of_partitions_comes_with_its_first_use() -> None:
    """pyparsing takes as long as the rest of a stack's first table."""
    _run_in_empty_moto(
        "import moto.glue.models as models, moto.glue.responses as responses\n"
        "assert not {'pyparsing', 'moto.glue.utils'} & set(looked)\n"
        "assert models.FilterField.STATE is models.FilterField('STATE')\n"
        "from moto.glue import utils\n"
        "assert models.FilterField.STATE is utils.FilterField.STATE\n"
        "assert type(responses.Predicate({'Logical': 'AND'})) is utils.Predicate\n"
        "assert utils._Like.eval.__module__ == 'headrace.services.glue.patches'\n"
    )


def test_clients_and_servers_of_moto_s_tests_are_not_imported() -> None:
    """They take 10 MB, and no request needs them."""
    _run_in_empty_moto(
        "unwanted = {'boto3.session', 'charset_normalizer', 'responses', 's3transfer', 'unittest.mock',\n"
        "            'requests.sessions', 'werkzeug.serving', 'botocore.session'}\n"
        "assert not unwanted & set(looked), unwanted & set(looked)\n"
        "import requests, moto\n"
        "import moto.utilities.utils as utils\n"
        "assert requests.structures.CaseInsensitiveDict in utils.CaseInsensitiveDict.__mro__\n"
        "assert 'requests.sessions' not in looked\n"
        "assert requests.Session.__name__ == 'Session' and requests.__version__\n"
    )


def test_moto_s_decorators_work_beside_headrace() -> None:
    """A user's tests may use both."""
    _run_in_empty_moto(
        "import boto3, moto\n"
        "from moto import mock_aws\n"
        "from moto.core import DEFAULT_ACCOUNT_ID\n"
        "import moto.core.models as models\n"
        "with mock_aws():\n"
        "    answer = boto3.client('sts', region_name='us-east-1').get_caller_identity()\n"
        "assert answer['Account'] == DEFAULT_ACCOUNT_ID == models.DEFAULT_ACCOUNT_ID\n"
        "assert vars(models)['MockAWS'] and '__getattr__' not in vars(models)\n"
    )


def test_a_first_request_imports_no_clients_and_no_cryptography() -> None:
    """The regions of a service came from boto3, and keys were recognized by their classes: 40 MB."""
    _run_in_empty_moto(
        "from moto.sqs.models import sqs_backends\n"
        "from headrace.moto.storage import pickles\n"
        "assert 'eusc-de-east-1' in sqs_backends['123456789012'].regions\n"
        "sqs_backends['123456789012']['us-east-1'].queues\n"
        "assert pickles.dump_service('sqs')[0]\n"
        "assert not {'cryptography', 'boto3.session'} & set(looked)\n"
    )


@pytest.mark.parametrize("service", ["sqs", "cloudwatch", "iam", "dms", "no-service"])
def test_regions_are_those_of_botocore_and_of_ec2(service: str) -> None:
    session = boto3.Session()
    expected = [
        region
        for partition in session.get_available_partitions()
        for region in sorted(
            {
                *session.get_available_regions(service, partition_name=partition),
                *session.get_available_regions("ec2", partition_name=partition),
            }
        )
    ]
    assert patching.regions_of(None, service) == expected


def test_nothing_catches_a_stand_in() -> None:
    """An exception that a module imports late is no class: its `except` would raise TypeError instead."""
    caught: set[str] = set()
    for module, later in patching._LATER.items():
        spec = importlib.util.find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        tree = ast.parse(Path(spec.origin).read_text())
        late = {
            alias.asname or alias.name.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
            if f"{getattr(node, 'module', None) or alias.name}.".startswith(
                tuple(f"{path}." for path in later)
            )
        }
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                caught |= {
                    f"{module}:{function.name}"
                    for handler in ast.walk(function)
                    if isinstance(handler, ast.ExceptHandler) and handler.type is not None
                    for name in ast.walk(handler.type)
                    if isinstance(name, ast.Name) and name.id in late
                }
    # headrace has its own functions in the place of these two.
    assert caught == {
        "moto.apigateway.models:import_rest_api",
        "moto.apigateway.models:put_rest_api",
    }
