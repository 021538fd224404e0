"""Data directories of strangers: their stored state runs nothing, and `headrace check` names what is foreign."""

from __future__ import annotations

import json
import lzma
import os
import pickle
import sqlite3
import struct
import subprocess
import sys
import zlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli.check import check
from headrace.moto.storage import pickles
from headrace.moto.storage.stored_names import foreign_names
from headrace.store.database import Database
from tests.support.moto_lab import MotoLab

OLD = Path(__file__).parents[1] / "unit" / "moto" / "data_directory_of_702b1d0b.sqlite.xz"


# --- opcodes, by which the bytes are written by hand -------------------------------------------------


def text(value: str) -> bytes:
    data = value.encode()
    return pickle.BINUNICODE + struct.pack("<I", len(data)) + data


def name(module: str, qualified: str) -> bytes:
    return text(module) + text(qualified) + pickle.STACK_GLOBAL


def call(what: bytes, *arguments: bytes) -> bytes:
    return what + pickle.MARK + b"".join(arguments) + pickle.TUPLE + pickle.REDUCE


def new(what: bytes, *arguments: bytes) -> bytes:
    return what + pickle.MARK + b"".join(arguments) + pickle.TUPLE + pickle.NEWOBJ


def build(what: bytes, state: bytes) -> bytes:
    return what + state + pickle.BUILD


def dictionary(*items: bytes) -> bytes:
    return pickle.EMPTY_DICT + pickle.MARK + b"".join(items) + pickle.SETITEMS


def whole(*parts: bytes) -> bytes:
    return pickle.PROTO + b"\x05" + b"".join(parts) + pickle.STOP


QUEUE = name("moto.sqs.models", "Queue")
TOPIC = name("moto.sns.models", "Topic")
LOCK = name("headrace.fallback.kept.pickles", "new_lock")
METHOD = name("headrace.fallback.kept.pickles", "bound_method")
THREAD = name("headrace.fallback.kept.pickles", "ended_thread")
BACKEND = name("headrace.fallback.kept.pickles", "backend_at")
BACKENDS = name("headrace.fallback.kept.pickles", "backend_dict")
FACTORY = name("headrace.fallback.kept.pickles", "known_factory")
ROWS = name("headrace.fallback.kept.pickles", "rows_with_id")
SET_ATTRIBUTE = pickle.NONE + dictionary(text("receive_messages"), LOCK) + pickle.TUPLE2
RUN = text("touch {file}")

# Each either runs something, calls what it should not, or changes a class.
EVIL: dict[str, bytes] = {
    "a program": call(name("os", "system"), RUN),
    "a program by posix": call(name("posix", "system"), RUN),
    "a child": call(name("subprocess", "Popen"), RUN),
    "eval": call(name("builtins", "eval"), text("open('{file}', 'w')")),
    "exec": call(name("builtins", "exec"), text("open('{file}', 'w')")),
    "getattr": call(name("builtins", "getattr"), name("os", "path"), text("join")),
    "open": call(name("builtins", "open"), text("{file}"), text("w")),
    "import": call(name("importlib", "import_module"), text("antigravity")),
    "a path through a module of moto": call(name("moto.sqs.models", "json.loads"), text("{}")),
    "a module of moto's imports": call(name("moto.core.utils", "os.system"), RUN),
    "a path through a class": call(
        name("moto.sqs.models", "Queue.__init__.__globals__"), text("x")
    ),
    "moto's classes that run programs": new(name("moto.awslambda.models", "LambdaFunction")),
    "moto's server": call(name("moto.server", "main"), text("x")),
    "moto's threads": call(name("moto.batch.models", "Job"), text("x")),
    "a backend of a module of the attacker's": call(
        BACKEND, text("evil"), text("Backend"), text("000000000000"), text("us-east-1")
    ),
    "all backends of one": call(BACKENDS, text("evil"), text("Backend")),
    "a class is called": call(QUEUE, text("q"), text("us-east-1"), text("000000000000")),
    "a class is constructed with arguments": new(TOPIC, text("t")),
    "a class is changed": build(QUEUE, SET_ATTRIBUTE),
    "a class's dictionary is changed": build(QUEUE, dictionary(text("url"), text("x"))),
    "a function is changed": build(LOCK, SET_ATTRIBUTE),
    "a plain class is changed": build(name("uuid", "UUID"), SET_ATTRIBUTE),
    "a property is set": build(
        new(QUEUE), pickle.NONE + dictionary(text("visibility_timeout"), text("x")) + pickle.TUPLE2
    ),
    "a method of a queue": call(METHOD, new(QUEUE), text("delete")),
    "a method of the language": call(METHOD, new(QUEUE), text("__init__")),
    "a thread of another class": call(THREAD, QUEUE),
    "an unknown factory": call(FACTORY, text("os"), text("system")),
    "a factory of one's choosing": call(name("collections", "defaultdict"), QUEUE),
    "rows that are none": call(ROWS, QUEUE, pickle.BININT1 + b"\x01"),
    "an old way to construct": call(
        name("copyreg", "_reconstructor"), QUEUE, name("builtins", "object"), pickle.NONE
    ),
    "an instance by INST": pickle.MARK + text("q") + b"imoto.sqs.models\nQueue\n",
    "an instance by OBJ": pickle.MARK + QUEUE + text("q") + pickle.OBJ,
    "another module of headrace": call(name("headrace.store.database", "Database"), text("{file}")),
    "a random generator's state": call(name("random", "Random")),
    "the module of stored names": call(name("headrace_state", "named"), text("os.system")),
    "itself": call(name("headrace_state", "sys.exit"), text("x")),
    "a class of another library": new(name("botocore.awsrequest", "AWSResponse")),
    "persistent ids": text("x") + pickle.BINPERSID,
    "an extension's code": pickle.EXT1 + b"\x01",
}


@pytest.fixture
def lab(tmp_path: Path) -> MotoLab:
    lab = MotoLab(tmp_path / "data")
    lab.client("sqs").create_queue(QueueName="q")
    return lab


@pytest.mark.parametrize("evil", EVIL)
def test_stored_state_runs_nothing(lab: MotoLab, tmp_path: Path, evil: str) -> None:
    marker = tmp_path / "ran"
    from moto.sqs.models import Queue

    def members() -> dict[str, Any]:
        return {name: value for name, value in vars(Queue).items() if name != "__annotations__"}

    before = members()
    data = whole(EVIL[evil]).replace(b"{file}", str(marker).encode())
    if b"{file}" in EVIL[evil]:
        # The length of the text in front of it has changed.
        data = _resized(EVIL[evil], str(marker))
    with pytest.raises((pickle.PickleError, TypeError, ValueError, AttributeError, KeyError)):
        pickles.load(data)
    assert not marker.exists()
    assert members() == before
    assert "antigravity" not in sys.modules


def _resized(template: bytes, marker: str) -> bytes:
    """Return the whole of a template with a path in its texts."""
    out, at = b"", 0
    while (found := template.find(pickle.BINUNICODE, at)) >= 0:
        (size,) = struct.unpack_from("<I", template, found + 1)
        begin = found + 5
        part = template[begin : begin + size]
        if len(part) == size and b"{file}" in part:
            out += template[at:found] + text(part.decode().replace("{file}", marker))
        else:
            out += template[at : begin + size]
        at = begin + size
    return whole(out + template[at:])


# Hostile, but no more than wrong data: what they call are the listed constructors.
HARMLESS: dict[str, bytes] = {
    "a constructor in place of a method": build(new(QUEUE), dictionary(text("append"), LOCK)),
    "a state setter of the bytes' choosing": build(
        new(QUEUE), dictionary(text("__setstate__"), LOCK)
    ),
}


@pytest.mark.parametrize("evil", HARMLESS)
def test_attributes_are_data(lab: MotoLab, evil: str) -> None:
    assert lab is not None
    loaded = pickles.load(whole(HARMLESS[evil]))
    assert type(loaded).__name__ == "Queue"


def test_no_code_of_a_class_runs(lab: MotoLab, monkeypatch: pytest.MonkeyPatch) -> None:
    from moto.sqs.models import Queue

    ran: list[str] = []

    def note(what: str) -> Callable[..., Any]:
        return lambda *_, **__: ran.append(what)

    for method in ("__init__", "__setstate__", "__setattr__", "__reduce__", "__new__"):
        monkeypatch.setattr(Queue, method, note(method), raising=False)
    loaded = pickles.load(whole(build(new(QUEUE), dictionary(text("name"), text("q")))))
    assert (type(loaded), vars(loaded), ran) == (Queue, {"name": "q"}, [])
    monkeypatch.undo()


def test_what_plain_values_are_made_of() -> None:
    value = {
        "a": OrderedDict(a=1),
        "b": defaultdict(list, {"x": [1]}),
        "c": {1, 2},
        "d": b"x",
        "e": (1, 2.5, None, True),
    }
    assert pickles.load(pickles.dump(value)) == value


# --- whole data directories ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of an earlier headrace, with state in 139 of moto's services."""
    folder = tmp_path_factory.mktemp("old")
    (folder / "state.sqlite").write_bytes(lzma.decompress(OLD.read_bytes()))
    return folder


def checked(folder: Path) -> list[str]:
    """Return what `headrace check` prints."""
    ended = CliRunner().invoke(check, ["--no-objects", "--data-dir", str(folder)])
    return ended.output.splitlines()


def test_an_honest_directory_is_named_sound(old: Path) -> None:
    database = old / "state.sqlite"
    with sqlite3.connect(database) as connection:
        states = connection.execute("SELECT service, state FROM fallback_services").fetchall()
    assert len(states) == 139
    assert {service: list(foreign_names(state)) for service, state in states} == {
        service: [] for service, _ in states
    }


def test_state_with_classes_of_headrace_is_named_sound(tmp_path: Path) -> None:
    """Their stand-ins in the bytes (`named`) are classes, of which the state makes objects."""
    with MotoLab(tmp_path / "data") as lab:
        iam = lab.client("iam")
        trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
        allow = {"Effect": "Allow", "Action": "sqs:*", "Resource": "*"}
        trusted, allowed = (
            json.dumps({"Version": "2012-10-17", "Statement": [each]}) for each in (trust, allow)
        )
        iam.create_role(RoleName="r", AssumeRolePolicyDocument=trusted)
        arn = iam.create_policy(PolicyName="p", PolicyDocument=allowed)["Policy"]["Arn"]
        iam.attach_role_policy(RoleName="r", PolicyArn=arn)
        lab.client("sts").assume_role(
            RoleArn="arn:aws:iam::000000000000:role/r", RoleSessionName="s"
        )
        lab.client("sqs").create_queue(QueueName="q")
        lab.client("ssm").put_parameter(Name="p", Value="v", Type="String")
    with sqlite3.connect(tmp_path / "data" / "state.sqlite") as connection:
        query = "SELECT service, is_compressed, state FROM fallback_services"
        states = {
            service: zlib.decompress(state) if is_compressed else state
            for service, is_compressed, state in connection.execute(query)
        }
    assert all(b"headrace_state" in states[name] for name in ("iam", "sts", "sqs", "ssm"))
    assert {name: list(foreign_names(state)) for name, state in states.items()} == {
        name: [] for name in states
    }
    assert not [line for line in checked(tmp_path / "data") if "does not belong" in line]


@pytest.mark.parametrize(
    "evil", ["a program", "eval", "another module of headrace", "a module of moto's imports"]
)
def test_check_names_foreign_names(tmp_path: Path, evil: str) -> None:
    marker = tmp_path / "ran"
    with MotoLab(tmp_path / "data") as lab:
        lab.client("sqs").create_queue(QueueName="q")
    with sqlite3.connect(tmp_path / "data" / "state.sqlite") as connection:
        connection.execute(
            "UPDATE fallback_services SET is_compressed = 0, state = ? WHERE service = 'sqs'",
            (_resized(EVIL[evil], str(marker)),),
        )
    said = checked(tmp_path / "data")
    assert any("the state of sqs has" in line and "does not belong there" in line for line in said)
    assert not marker.exists()
    with MotoLab(tmp_path / "data") as lab, pytest.raises(Exception, match="cannot be loaded"):
        lab.client("sqs").list_queues()
    assert not marker.exists()


@pytest.mark.parametrize(
    "link", ["s3/b/k", "state.old", "redshift/cluster-0-us-east-1-c/data/base/1", "streams/s/0"]
)
def test_check_names_links_out_of_the_directory(tmp_path: Path, link: str) -> None:
    data = tmp_path / "data"
    Database(_made(data) / "state.sqlite").close()
    place = data / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to("/etc/passwd")
    assert any(str(place) in line and "link" in line for line in checked(data))


@pytest.mark.parametrize(
    ("file", "contents", "why"),
    [
        ("data/postgresql.conf", "archive_command = 'touch /tmp/x'", "sets archive_command"),
        ("data/postgresql.conf", "include '/tmp/evil.conf'", "sets include"),
        ("data/postgresql.auto.conf", "archive_mode = 'on'", "sets archive_mode"),
        ("data/pg_hba.conf", "local all all trust", "has the rule"),
        ("data/pg_ident.conf", "m /^(.*)$ rdsdb", "has the line"),
        ("data/evil.so", "", "does not belong here"),
        ("data/base/5/evil.so", "", "is a program or a library"),
        ("data/recovery.signal", "", "makes PostgreSQL restore a backup"),
        ("data/tablespace_map", "1 /etc", "makes PostgreSQL restore a backup"),
        ("start.sh", "touch /tmp/x", "does not belong here"),
        ("spec.json", '{"kind": "cluster", "name": "../x"}', "describes another cluster"),
    ],
)
def test_check_names_what_a_cluster_does_not_have(
    tmp_path: Path, file: str, contents: str, why: str
) -> None:
    data = tmp_path / "data"
    Database(_made(data) / "state.sqlite").close()
    place = data / "redshift" / "cluster-000000000000-us-east-1-c" / file
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(contents)
    assert any(str(place) in line and why in line for line in checked(data))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


LOADS_ALL = """
import importlib, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
from headrace.moto.storage import pickles
from headrace.moto.storage.changes import CHANGES
from tests.support.moto_lab import MotoLab
with MotoLab(Path(sys.argv[1])) as lab:
    lab.client("sqs").list_queues()
    journalled = lab.database.query("SELECT group_concat(services) FROM fallback_journal")[0][0]
    for (service,) in lab.database.query("SELECT service FROM fallback_services"):
        importlib.import_module(f"moto.{service}.models")
        CHANGES.load_deferred(service)
        if f",{service}," not in journalled:
            data, _ = pickles.dump_service(service)
            pickles.load(data)
        print(service)
    lab.client("sqs").create_queue(QueueName="another")
"""


@pytest.mark.slow
def test_an_old_directory_opens_whole_and_is_stored_under_todays_names(
    tmp_path: Path, old: Path
) -> None:
    (tmp_path / "state.sqlite").write_bytes((old / "state.sqlite").read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", LOADS_ALL, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": "."},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.split()) >= 139
    with sqlite3.connect(tmp_path / "state.sqlite") as connection:
        (state,) = connection.execute(
            "SELECT state FROM fallback_services WHERE service = 'sqs'"
        ).fetchone()
    assert b"headrace_state" in state
    assert b"fallback" not in state
