"""Delivery streams to Redshift: objects, manifests, COPY once each, retries, errors/manifests, refusals at creation."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from headrace.aws.calls.errors import AwsError
from headrace.core.ports.warehouses import Load, NoWarehouses, WarehouseError
from headrace.services.firehose.destinations import DESTINATIONS
from tests.support.objects import Killed
from tests.unit.firehose.destinations.helpers import ROLE, DestinationLab

URL = "jdbc:redshift://flights.abc.us-east-1.redshift.amazonaws.com:5439/dev"
S3: dict[str, Any] = {
    "RoleARN": ROLE,
    "BucketARN": "arn:aws:s3:::lake",
    "Prefix": "in/",
    "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 60},
}
GIVEN: dict[str, Any] = {
    "RoleARN": ROLE,
    "ClusterJDBCURL": URL,
    "CopyCommand": {"DataTableName": "public.flights", "CopyOptions": "json 'auto';"},
    "Username": "admin",
    "Password": "Secret123",
    "S3Configuration": S3,
}
SECRET = "arn:aws:secretsmanager:us-east-1:000000000000:secret:s"


class Warehouses(NoWarehouses):
    """Loads nothing but notes what was asked. `fates` are what happens to the next loads: an error, or a kill after
    the transaction is committed."""

    def __init__(self, *fates: str) -> None:
        self.fates = list(fates)
        self.loads: list[Load] = []
        self.done: dict[str, Load] = {}

    def load(self, load: Load) -> int:
        self.loads.append(load)
        fate = self.fates.pop(0) if self.fates else ""
        if fate == "killed before":
            raise Killed
        if fate and fate != "killed after":
            raise WarehouseError(fate, f"ERROR: {fate}")  # type: ignore[arg-type]
        self.done.setdefault(load.once, load)
        if fate == "killed after":
            raise Killed
        return 1


def lab_of(tmp_path: Path, warehouses: Warehouses, **given: Any) -> DestinationLab:
    return DestinationLab(tmp_path, "Redshift", warehouses=warehouses, **{**GIVEN, **given})


def run(lab: DestinationLab) -> None:
    lab.settle()
    lab.clock.advance(61)
    lab.settle_through_kills()


def test_a_buffer_is_an_object_a_manifest_and_a_copy(tmp_path: Path):
    warehouses = Warehouses()
    lab = lab_of(tmp_path, warehouses)
    lab.put(b'{"a":1}', b'{"a":2}')
    run(lab)
    (manifest,) = [key for key in lab.objects.objects if "/manifests/" in key]
    (data,) = [key for key in lab.objects.objects if "/manifests/" not in key]
    assert manifest == data.replace("lake/in/", "lake/in/manifests/")
    assert lab.objects.objects[data] == b'{"a":1}{"a":2}'
    entries = json.loads(lab.objects.objects[manifest])
    assert entries == {"entries": [{"url": f"s3://{data}", "mandatory": True}]}
    (load,) = warehouses.loads
    assert load.sql == f"COPY public.flights FROM 's3://{manifest}' MANIFEST json 'auto'"
    assert (load.jdbc_url, load.role, load.login.user) == (URL, ROLE, "admin")
    assert lab.is_drained
    assert lab.delivery.status()["delivered_records"] == 2


def test_gzip_and_a_list_of_columns(tmp_path: Path):
    warehouses = Warehouses()
    command = {"DataTableName": "t", "DataTableColumns": "a, b", "CopyOptions": "csv gzip"}
    lab = lab_of(
        tmp_path,
        warehouses,
        CopyCommand=command,
        S3Configuration=S3 | {"CompressionFormat": "GZIP"},
    )
    lab.put(b"1,2\n")
    run(lab)
    (data,) = [key for key in lab.objects.objects if key.endswith(".gz")]
    assert gzip.decompress(lab.objects.objects[data]) == b"1,2\n"
    assert warehouses.loads[0].sql.startswith("COPY t (a, b) FROM 's3://lake/in/manifests/")


@pytest.mark.parametrize("fate", ["killed before", "killed after"])
def test_a_kill_leads_to_the_same_copy(tmp_path: Path, fate: str):
    warehouses = Warehouses(fate)
    lab = lab_of(tmp_path, warehouses)
    lab.put(b'{"a":1}')
    run(lab)
    assert len(warehouses.loads) == 2
    # The second is refused by the note that the first has left.
    assert len(warehouses.done) == 1
    assert len(lab.objects.objects) == 2
    assert lab.is_drained


def test_a_changed_stream_does_not_load_twice_what_a_kill_left(tmp_path: Path):
    warehouses = Warehouses("killed after", "ConnectionFailed")
    lab = lab_of(tmp_path, warehouses)
    lab.put(b'{"a":1}')
    lab.settle()
    lab.clock.advance(61)
    with pytest.raises(Killed):
        lab.settle()
    update = {"S3Update": {"Prefix": "other/"}}
    lab.stream.destination = DESTINATIONS["Redshift"].update(lab.stream.destination, update)
    lab.stream.version = 2
    lab.start()
    lab.settle_until(lambda: lab.is_drained)
    assert len(warehouses.loads) == 3
    assert len(warehouses.done) == 1


def test_a_copy_that_fails_is_tried_every_five_minutes(tmp_path: Path):
    warehouses = Warehouses("TableNotFound", "TableNotFound")
    lab = lab_of(tmp_path, warehouses)
    lab.put(b'{"a":1}')
    run(lab)
    assert lab.settle_until(lambda: lab.is_drained) == 600
    assert [load.once for load in warehouses.loads] == [warehouses.loads[0].once] * 3
    assert lab.codes == ["Redshift.TableNotFound"] * 2
    assert not any("errors/" in key for key in lab.objects.objects)


def test_what_is_given_up_is_named_by_a_manifest_under_errors(tmp_path: Path):
    warehouses = Warehouses(*["DataLoadFailed"] * 9)
    lab = lab_of(tmp_path, warehouses, RetryOptions={"DurationInSeconds": 300})
    lab.put(b'{"a":1}', b'{"a":2}')
    run(lab)
    assert lab.settle_until(lambda: lab.is_drained) == 300
    (error,) = [key for key in lab.objects.objects if "errors/" in key]
    assert error.startswith("lake/in/errors/manifests/")
    (manifest,) = [key for key in lab.objects.objects if key.startswith("lake/in/manifests/")]
    assert lab.objects.objects[error] == lab.objects.objects[manifest]
    assert lab.codes == ["Redshift.DataLoadFailed"] * 2
    assert lab.delivery.status()["failed_records"] == 2


def test_no_retry_when_the_duration_is_zero(tmp_path: Path):
    warehouses = Warehouses("ConnectionFailed")
    lab = lab_of(tmp_path, warehouses, RetryOptions={"DurationInSeconds": 0})
    lab.put(b'{"a":1}')
    run(lab)
    assert lab.is_drained
    assert len(warehouses.loads) == 1


def test_the_backup_holds_the_records_as_they_came(tmp_path: Path):
    backup = {**S3, "BucketARN": "arn:aws:s3:::kept", "Prefix": "raw/"}
    lab = lab_of(tmp_path, Warehouses(), S3BackupMode="Enabled", S3BackupConfiguration=backup)
    lab.put(b'{"a":1}')
    run(lab)
    (kept,) = [key for key in lab.objects.objects if key.startswith("kept/raw/")]
    assert lab.objects.objects[kept] == b'{"a":1}'


def test_the_login_comes_from_a_secret(tmp_path: Path):
    warehouses = Warehouses()
    lab = lab_of(
        tmp_path,
        warehouses,
        Username=None,
        Password=None,
        SecretsManagerConfiguration={"Enabled": True, "SecretARN": SECRET},
    )
    lab.secrets[SECRET] = json.dumps({"username": "loader", "password": "p"})
    lab.put(b'{"a":1}')
    run(lab)
    assert (warehouses.loads[0].login.user, warehouses.loads[0].login.password) == ("loader", "p")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"S3Configuration": S3 | {"CompressionFormat": "ZIP"}}, "ZIP is not supported"),
        ({"S3Configuration": S3 | {"CompressionFormat": "Snappy"}}, "Snappy is not supported"),
        (
            {"S3Configuration": S3 | {"Prefix": "a/!{timestamp:yyyy}/", "ErrorOutputPrefix": "e/"}},
            "Expressions in Prefix are not supported",
        ),
        ({"Password": None}, "Username and Password are required"),
        ({"SecretsManagerConfiguration": {"Enabled": True}}, "SecretARN is required"),
        ({"S3BackupMode": "Enabled"}, "S3BackupConfiguration is required"),
        (
            {"CopyCommand": {"DataTableName": "t", "CopyOptions": "MANIFEST"}},
            "must not contain MANIFEST",
        ),
    ],
)
def test_what_is_refused_at_creation(given: dict[str, Any], said: str):
    with pytest.raises(AwsError, match=said) as refused:
        DESTINATIONS["Redshift"].check({**GIVEN, **given})
    assert refused.value.code == "InvalidArgumentException"


def test_a_description_shows_no_password_and_an_update_keeps_it():
    kind = DESTINATIONS["Redshift"]
    made = kind.check(GIVEN)
    shown = kind.describe(made)["RedshiftDestinationDescription"]
    assert "Password" not in shown
    assert shown["RetryOptions"] == {"DurationInSeconds": 3600}
    changed = kind.update(
        made, {"CopyCommand": {"DataTableName": "u"}, "S3Update": {"Prefix": "x/"}}
    )
    assert changed["Password"] == "Secret123"
    assert changed["S3Configuration"] == {**made["S3Configuration"], "Prefix": "x/"}
    backup = {"S3BackupMode": "Enabled", "S3BackupConfiguration": S3}
    with pytest.raises(AwsError, match="Disabling S3 backup is not currently supported"):
        kind.update(kind.check(GIVEN | backup), {"S3BackupMode": "Disabled"})
