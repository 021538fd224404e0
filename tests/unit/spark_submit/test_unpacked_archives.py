"""What a large archive holds is kept for the next job, and no job sees what another one did to it."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from headrace.spark_submit import unpacked_archives
from headrace.spark_submit.environments import CACHE_VARIABLE
from headrace.spark_submit.unpacked_archives import MOST_KEPT, keep, kind_of, unpack

MODULE, DATA, SETTINGS = "lib/__init__.py", "lib/data/table.json", "conf/settings.json"
FILES = {MODULE: "a = 1\n", DATA: "{}", "lib.libs/native.so.1.2": "x", SETTINGS: "[]"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(unpacked_archives, "LEAST_BYTES", 0)
    return tmp_path / "cache" / "archives"


def make_archive(tmp_path: Path, name: str = "env.tgz", **more: str) -> Path:
    folder = tmp_path / "sources"
    for path, text in {**FILES, **more}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "run").write_text("#!/bin/sh\n")
    (folder / "run").chmod(0o755)
    (folder / "python").symlink_to("/usr/bin/python3")
    (folder / "conf").chmod(0o750)
    with tarfile.open(tmp_path / name, "w:gz") as tar:
        tar.add(folder, "")
    shutil.rmtree(folder)
    return tmp_path / name


def unpacked(archive: Path, target: Path) -> Path:
    unpack(archive, kind_of(archive) or "", target)
    return target


def tree(folder: Path) -> dict[str, tuple[int, str]]:
    """Return the mode and the content of everything below a folder, without compiled modules."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            str(path.readlink())
            if path.is_symlink()
            else ""
            if path.is_dir()
            else path.read_text(),
        )
        for path in folder.rglob("*")
        if path.name != "__pycache__"
    }


def test_each_job_gets_what_the_archive_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = make_archive(tmp_path)
    folders = [unpacked(archive, tmp_path / name) for name in ("first", "second")]
    monkeypatch.setattr(unpacked_archives, "LEAST_BYTES", archive.stat().st_size + 1)
    plain = tree(unpacked(archive, tmp_path / "plain"))
    assert FILES.keys() < plain.keys()
    assert [tree(folder) for folder in folders] == [plain, plain]


def test_what_jobs_may_change_is_a_copy_of_their_own(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    first, second = (unpacked(archive, tmp_path / name) for name in ("first", "second"))
    shared = {name for name in FILES if (first / name).samefile(second / name)}
    assert shared == FILES.keys() - {SETTINGS}
    (first / SETTINGS).write_text("[1]")
    assert (second / SETTINGS).read_text() == "[]"


@pytest.mark.parametrize("name", [MODULE, DATA])
def test_a_job_that_changes_a_shared_file_in_place_changes_it_for_no_later_one(
    tmp_path: Path, name: str
) -> None:
    archive = make_archive(tmp_path)
    (unpacked(archive, tmp_path / "first") / name).write_text("b = 2\n")
    assert (unpacked(archive, tmp_path / "second") / name).read_text() == FILES[name]


def test_a_module_that_one_job_compiled_is_compiled_for_the_next(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    first, second = (unpacked(archive, tmp_path / name) for name in ("first", "second"))
    py_compile.compile(str(first / MODULE), doraise=True)
    compiled = Path(importlib.util.cache_from_source(str(second / MODULE)))
    assert compiled.is_file()
    third = unpacked(archive, tmp_path / "third")
    assert Path(importlib.util.cache_from_source(str(third / MODULE))).samefile(compiled)
    shutil.rmtree(first)
    assert compiled.is_file()


def test_an_archive_that_was_unpacked_ahead_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = make_archive(tmp_path)
    keep(archive, "gztar")
    monkeypatch.setattr(shutil, "unpack_archive", pytest.fail)
    assert (unpacked(archive, tmp_path / "job") / DATA).read_text() == "{}"


def test_only_the_archives_that_were_used_last_are_kept(tmp_path: Path, cache: Path) -> None:
    archives = [make_archive(tmp_path, f"{n}.tgz", number=str(n)) for n in range(MOST_KEPT + 1)]
    for archive in archives[:MOST_KEPT]:
        keep(archive, "gztar")
    before = set(cache.iterdir())
    unpacked(archives[0], tmp_path / "again")
    keep(archives[-1], "gztar")
    after = set(cache.iterdir())
    assert len(after) == MOST_KEPT
    keep(archives[0], "gztar")
    assert set(cache.iterdir()) == after
    assert len(before - after) == 1


def test_without_a_cache_or_links_archives_are_unpacked(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = make_archive(tmp_path)
    cache.parent.write_text("a file")
    expected = tree(unpacked(archive, tmp_path / "first"))
    cache.parent.unlink()

    def refuse(*_: object) -> None:
        raise OSError("another file system")

    monkeypatch.setattr(os, "link", refuse)
    assert tree(unpacked(archive, tmp_path / "second")) == expected


def test_what_is_no_archive_is_refused_and_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    archive = tmp_path / "no.tgz"
    archive.write_text("no archive")
    with pytest.raises(OSError, match=r"no\.tgz"):
        unpack(archive, "gztar", tmp_path / "job")
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("damage", ["cut", "flipped", "encrypted"])
def test_a_damaged_archive_is_refused_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, is_kept: bool
) -> None:
    archive = make_archive(tmp_path)
    if damage == "cut":
        archive.write_bytes(archive.read_bytes()[:-30])
    else:
        archive = tmp_path / "env.zip"
        with zipfile.ZipFile(archive, "w") as made:
            made.writestr("module.py", "a = 1\n")
        data = bytearray(archive.read_bytes())
        if damage == "flipped":
            data[data.index(b"a = 1")] ^= 1
        else:  # its flag, in the index
            data[data.index(b"PK\x01\x02") + 8] |= 1
            data[6] |= 1
        archive.write_bytes(data)
    if not is_kept:
        monkeypatch.setattr(unpacked_archives, "LEAST_BYTES", archive.stat().st_size + 1)
    with pytest.raises(OSError, match=rf"{archive.name} is damaged: "):
        unpacked(archive, tmp_path / "job")


def test_what_a_kill_left_is_removed(tmp_path: Path, cache: Path) -> None:
    left = cache / ".part-1" / "files"
    left.mkdir(parents=True)
    keep(make_archive(tmp_path), "gztar")
    assert not left.exists()
    assert len(list(cache.iterdir())) == 1
