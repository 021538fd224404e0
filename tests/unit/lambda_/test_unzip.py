"""A deployment package is untrusted: nothing may leave its directory."""

from __future__ import annotations

import io
import stat
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.services.lambda_.errors import UnsafeArchive, UnzippedTooLarge
from headrace.services.lambda_.packages import split_safely, unzip


def archive(path: Path, *entries: tuple[str, bytes, int]) -> Path:
    file = path / "package.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content, mode in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            opened.writestr(info, content)
    return file


FILE = stat.S_IFREG | 0o600
LINK = stat.S_IFLNK | 0o777


def test_files_are_unpacked_readable_and_executable_bits_are_kept(tmp_path: Path) -> None:
    file = archive(
        tmp_path, ("app.py", b"x = 1", FILE), ("bin/tool", b"#!/bin/sh", stat.S_IFREG | 0o700)
    )
    size = unzip(file, tmp_path / "out")
    assert size == 14
    assert (tmp_path / "out/app.py").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "out/bin/tool").stat().st_mode & 0o100


@pytest.mark.parametrize(
    "name",
    ["/etc/x", "../x", "a/../../x", "a/../x", "..\\x", "\\x", "C:/x", "a\\..\\..\\x"],
)
def test_names_that_leave_the_directory_are_refused(tmp_path: Path, name: str) -> None:
    info = zipfile.ZipInfo("placeholder")
    info.filename = name
    info.external_attr = FILE << 16
    file = tmp_path / "package.zip"
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr(info, b"x")
    with pytest.raises(UnsafeArchive):
        unzip(file, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("target", ["/etc/passwd", "../secret", "../../x", "a/../../x", ""])
def test_links_out_of_the_directory_are_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "secret").write_text("secret")
    file = archive(tmp_path, ("link", target.encode(), LINK))
    with pytest.raises(UnsafeArchive):
        unzip(file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_link_within_the_package_is_kept(tmp_path: Path) -> None:
    file = archive(tmp_path, ("lib/a.so.1", b"a", FILE), ("lib/a.so", b"a.so.1", LINK))
    unzip(file, tmp_path / "out")
    assert (tmp_path / "out/lib/a.so").read_bytes() == b"a"


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    file = archive(tmp_path, ("d", b"../outside", LINK), ("d/x", b"x", FILE))
    with pytest.raises(UnsafeArchive):
        unzip(file, tmp_path / "out")
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_chain_of_links_out_is_refused(tmp_path: Path) -> None:
    file = archive(
        tmp_path,
        ("sub/x", b"x", FILE),
        ("sub/up", b"..", LINK),
        ("out", b"sub/up/../../secret", LINK),
    )
    with pytest.raises(UnsafeArchive):
        unzip(file, tmp_path / "out")


@pytest.mark.parametrize(
    "links",
    [
        {"loop": "loop"},
        {"one": "two", "two": "one"},
        {"loop": "loop", "through": "loop/x"},
        {"sub/a": "../b", "b": "sub/a"},
    ],
    ids=lambda links: " ".join(links),
)
def test_links_that_lead_back_to_themselves_are_refused(
    tmp_path: Path, links: dict[str, str]
) -> None:
    entries = [(name, target.encode(), LINK) for name, target in links.items()]
    with pytest.raises(UnsafeArchive, match="leads back to itself"):
        unzip(archive(tmp_path, *entries), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_link_to_a_file_that_is_missing_is_kept(tmp_path: Path) -> None:
    unzip(archive(tmp_path, ("dangles", b"nothing", LINK)), tmp_path / "out")
    assert (tmp_path / "out/dangles").readlink() == Path("nothing")


def test_a_bomb_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    file = archive(tmp_path, ("zeros", b"\0" * 2_000_000, FILE))
    assert file.stat().st_size < 10_000
    with pytest.raises(UnzippedTooLarge):
        unzip(file, tmp_path / "out", most_bytes=1_000_000)
    assert not (tmp_path / "out").exists()


def test_a_bomb_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    file = archive(tmp_path, ("zeros", b"\0" * 2_000_000, FILE))
    content = file.read_bytes().replace(
        (2_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")
    )
    file.write_bytes(content)
    with pytest.raises((UnsafeArchive, UnzippedTooLarge)):
        unzip(file, tmp_path / "out", most_bytes=1_000_000)
    assert not (tmp_path / "out").exists()


def test_a_link_that_lies_about_its_size_is_not_unpacked(tmp_path: Path) -> None:
    """zipfile unpacks a whole entry, and then cuts it down to what it says that it is."""
    size = 64 << 20
    file = archive(tmp_path, ("link", b"\0" * size, LINK))
    file.write_bytes(
        file.read_bytes().replace(size.to_bytes(4, "little"), (10).to_bytes(4, "little"))
    )
    tracemalloc.start()
    with pytest.raises(UnsafeArchive):
        unzip(file, tmp_path / "out")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 4 << 20


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("mode", [FILE, LINK])
def test_what_zipfile_unpacks_without_a_bound_is_refused(
    tmp_path: Path, kind: int, mode: int
) -> None:
    """Eleven kilobytes of bzip2 are a gigabyte at once, whatever size the entry says."""
    size = 16 << 20
    file = tmp_path / "package.zip"
    info = zipfile.ZipInfo("zeros")
    info.external_attr, info.compress_type = mode << 16, kind
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr(info, bytes(size))
    file.write_bytes(
        file.read_bytes().replace(size.to_bytes(4, "little"), (10).to_bytes(4, "little"))
    )
    tracemalloc.start()
    with pytest.raises(UnsafeArchive, match="is compressed by a method other than deflate"):
        unzip(file, tmp_path / "out")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 4 << 20


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04" + b"\0" * 40])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "package.zip"
    file.write_bytes(content)
    with pytest.raises(UnsafeArchive):
        unzip(file, tmp_path / "out")


def test_a_file_where_a_directory_must_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsafeArchive):
        unzip(archive(tmp_path, ("a", b"x", FILE), ("a/b", b"x", FILE)), tmp_path / "out")


def test_a_device_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsafeArchive):
        unzip(archive(tmp_path, ("null", b"", stat.S_IFCHR | 0o666)), tmp_path / "out")


@given(st.text(alphabet="ab./\\:\0C", max_size=12))
def test_every_name_stays_inside_or_is_refused(name: str) -> None:
    try:
        parts = split_safely(name)
    except UnsafeArchive:
        return
    assert Path("/root").joinpath(*parts).resolve().is_relative_to("/root")


@given(st.binary(max_size=200))
def test_damaged_archives_never_raise_anything_else(damage: bytes) -> None:
    import tempfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        opened.writestr("a/b.txt", b"hello" * 20)
    whole = bytearray(buffer.getvalue())
    for place, byte in enumerate(damage):
        whole[(place * 7919) % len(whole)] ^= byte
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "package.zip"
        file.write_bytes(whole)
        try:
            unzip(file, Path(directory) / "out")
        except (UnsafeArchive, UnzippedTooLarge):
            assert not (Path(directory) / "out").exists()
        assert {path.name for path in Path(directory).iterdir()} <= {"package.zip", "out"}
