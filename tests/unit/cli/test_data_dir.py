"""Data directories that cannot be used: one sentence and exit code 1, whatever the command."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from headrace.store.database import Database
from tests.support.cloud import InProcessCloud
from tests.support.forked_command import run
from tests.support.small_disk import NoSmallDisk, SmallDisk

COMMANDS = {
    "up": ["up", "--port", "0"],
    "up --detach": ["up", "--port", "0", "--detach"],
    "check": ["check"],
    "check --repair": ["check", "--repair"],
    "down": ["down"],
    "status": ["status"],
    "env": ["env"],
    "history": ["history", "--port", "0"],
}


def refused(command: str, data_dir: Path) -> str:
    """Return the one sentence that a command ends with."""
    code, out, err = run(*COMMANDS[command], "--data-dir", str(data_dir))
    assert code == 1, (out, err)
    assert "Traceback" not in err
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    return lines[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_in_its_place(tmp_path: Path, command: str):
    place = tmp_path / "data"
    place.write_text("something else")
    assert "data is not a directory" in refused(command, place)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_on_the_way(tmp_path: Path, command: str):
    (tmp_path / "file").write_text("something else")
    assert "is not a directory" in refused(command, tmp_path / "file" / "data")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_that_may_not_be_entered(tmp_path: Path, command: str):
    place = tmp_path / "data"
    place.mkdir(mode=0)
    sentence = refused(command, place)
    place.chmod(0o700)
    assert "may not be" in sentence
    assert "mode 0000" in sentence


@pytest.mark.parametrize("command", ["up", "up --detach", "check", "check --repair"])
def test_a_directory_that_may_not_be_written(tmp_path: Path, command: str):
    place = tmp_path / "data"
    place.mkdir()
    place.chmod(0o500)
    sentence = refused(command, place)
    place.chmod(0o700)
    assert "may not be written" in sentence


@pytest.mark.parametrize("command", ["up", "check", "check --repair"])
def test_a_lock_that_cannot_be_made(tmp_path: Path, command: str):
    (tmp_path / "lock").mkdir()
    assert "lock cannot be used: Is a directory" in refused(command, tmp_path)


@pytest.mark.parametrize("command", ["up", "check --repair"])
@pytest.mark.parametrize("content", [b"x" * 5000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_state_database_that_is_none(tmp_path: Path, command: str, content: bytes):
    (tmp_path / "state.sqlite").write_bytes(content)
    sentence = refused(command, tmp_path)
    assert "headrace check" in sentence or "problem" in sentence


def test_a_state_database_that_may_not_be_opened(tmp_path: Path):
    Database(tmp_path / "state.sqlite").close()
    (tmp_path / "state.sqlite").chmod(0)
    assert "state.sqlite cannot be opened" in refused("up", tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", "5", '{"pid": 1}', '{"pid": "x"}'])
@pytest.mark.parametrize("command", ["status", "down", "env"])
def test_a_run_file_that_says_nothing(tmp_path: Path, command: str, content: str):
    (tmp_path / "headrace.json").write_text(content)
    assert "No headrace runs on" in refused(command, tmp_path)


def test_a_document_that_is_no_json_is_told_and_left_out_by_a_repair(tmp_path: Path):
    database = Database(tmp_path / "state.sqlite")
    database.documents("kinesis_streams").put("good", {"shards": []})
    database.documents("s_three_buckets").put("bucket", {})
    database.execute("UPDATE doc_s_three_buckets SET value = '{broken'")
    database.execute("DELETE FROM doc_kinesis_streams")
    database.close()
    assert "is damaged" in refused("up", tmp_path)
    code, out, err = run("check", "--data-dir", str(tmp_path))
    assert (code, "Traceback" in err) == (1, False)
    assert "bucket in doc_s_three_buckets is not JSON" in out
    code, out, err = run("check", "--repair", "--data-dir", str(tmp_path))
    assert (code, err) == (0, "")
    assert "table doc_s_three_buckets: bucket is lost" in out
    assert run("check", "--repair", "--data-dir", str(tmp_path))[1] == f"{tmp_path} is sound\n"


def test_a_repair_of_the_database_that_was_killed_is_finished(tmp_path: Path):
    Database(tmp_path / "state.sqlite").close()
    (tmp_path / "state.sqlite").rename(tmp_path / "state.sqlite.repaired")
    (tmp_path / "state.sqlite").write_bytes(b"damaged")
    assert "was interrupted; run it again" in refused("up", tmp_path)
    code, out, _ = run("check", "--repair", "--data-dir", str(tmp_path))
    assert (code, "is finished" in out) == (0, True)
    assert run("check", "--data-dir", str(tmp_path))[1] == f"{tmp_path} is sound\n"


def test_a_long_check_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headrace.cli.check._REPORT_EVERY_S", 0.0)
    with InProcessCloud(tmp_path) as cloud:
        s3 = cloud.client("s3")
        s3.create_bucket(Bucket="bucket")
        for n in range(3):
            s3.put_object(Bucket="bucket", Key=str(n), Body=b"x" * 1_500_000)
    code, out, err = run("check", "--data-dir", str(tmp_path))
    assert (code, out) == (0, f"{tmp_path} is sound\n")
    assert err.splitlines() == ["1 objects, 1 MiB", "2 objects, 2 MiB", "3 objects, 4 MiB"]


def test_a_directory_of_a_newer_headrace(tmp_path: Path):
    database = Database(tmp_path / "state.sqlite")
    database.migrate("s3", [f"CREATE TABLE x{n} (a)" for n in range(50)])
    database.close()
    assert "was last used by a newer headrace" in refused("up", tmp_path)


@pytest.mark.parametrize("more", [[], ["--detach"]])
def test_no_place_for_an_ephemeral_cloud(tmp_path: Path, more: list[str]):
    def without_temporary_folder() -> None:
        tempfile.tempdir = str(tmp_path / "nowhere")

    code, _, err = run("up", "--ephemeral", "--port", "0", *more, prepare=without_temporary_folder)
    assert (code, "No temporary directory can be made" in err) == (1, True)
    assert len(err.strip().splitlines()) == 1


def test_a_file_where_a_folder_belongs(tmp_path: Path):
    (tmp_path / "s3").write_text("")
    assert "/s3 is not a directory" in refused("up", tmp_path)


def test_a_file_system_that_is_read_only_or_full(tmp_path: Path):
    try:
        with SmallDisk(tmp_path / "disk", 1 << 20) as disk:
            _check_small_disk(disk)
    except NoSmallDisk as error:
        pytest.skip(f"no disk of a chosen size can be mounted: {error}")


def _check_small_disk(disk: SmallDisk) -> None:
    (disk.outside / "data").mkdir()

    def refused_there(*arguments: str) -> str:
        done = subprocess.run(
            disk.command(sys.executable, "-m", "headrace.cli.main", *arguments,
                         "--data-dir", str(disk.inside / "data")),
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 1, done.stdout
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        return done.stderr

    filler = os.open(disk.outside / "data" / "filler", os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while os.write(filler, bytes(4096)):
            pass
    os.close(filler)
    assert "No space is left on the disk" in refused_there("up", "--port", "0")
    subprocess.run(
        disk.command("mount", "-o", "remount,ro", str(disk.inside)), check=True, capture_output=True
    )
    for arguments in (["up", "--port", "0"], ["check"], ["check", "--repair"]):
        assert "read-only" in refused_there(*arguments)


def test_a_database_with_a_damaged_page_in_its_middle(tmp_path: Path):
    """The start itself reads none of the rows on it."""
    database = Database(tmp_path / "state.sqlite")
    others = database.documents("others")
    for number in range(300):
        others.put(str(number), "y" * 300)
    database.close()
    state = tmp_path / "state.sqlite"
    content = state.read_bytes()
    at = content.rindex(b"y" * 300) // 4096 * 4096
    state.write_bytes(content[:at] + b"\xa5" * 4096 + content[at + 4096 :])
    damage = "table doc_others: rows on damaged pages are lost"
    assert damage in run("check", "--data-dir", str(tmp_path))[1]
    assert damage in refused("up", tmp_path)
    assert "headrace check --repair" in refused("up", tmp_path)
    assert "table doc_others" in run("check", "--repair", "--data-dir", str(tmp_path))[1]
    assert "is sound" in run("check", "--data-dir", str(tmp_path))[1]
    with InProcessCloud(tmp_path) as cloud:
        assert 0 < len(cloud.cloud.database.documents("others").items()) < 300
