"""The walk over a bucket's files, held against sorting all keys."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.services.s3 import files

NAMES = st.text("ab-.0ü\U0001f600", min_size=1, max_size=3).filter(lambda n: n not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


def plant(top: Path, paths: set[str]) -> set[str]:
    """Make those files whose folders are not files already; return their keys."""
    made: set[str] = set()
    for path in sorted(paths, key=len):
        try:
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).touch()
        except (FileExistsError, NotADirectoryError):
            continue
        if (top / path).is_file():
            made.add(path)
    return made


@settings(max_examples=200, deadline=None)
@given(
    paths=st.sets(PATHS, max_size=15),
    prefix=st.one_of(st.just(""), PATHS, PATHS.map(lambda path: path + "/")),
    after=st.one_of(st.just(""), PATHS, PATHS.map(lambda path: path + "/")),
)
def test_keys_come_in_the_order_of_their_bytes(paths: set[str], prefix: str, after: str):
    with tempfile.TemporaryDirectory() as folder:
        made = plant(Path(folder), paths)
        expected = sorted(
            (key for key in made if key.startswith(prefix) and key.encode() > after.encode()),
            key=str.encode,
        )
        assert list(files.iterate_keys(Path(folder), prefix=prefix, after=after)) == expected


@settings(max_examples=200, deadline=None)
@given(
    paths=st.sets(PATHS, max_size=15), prefix=st.one_of(st.just(""), NAMES, NAMES.map("{}/".format))
)
def test_rolled_folders_show_their_first_key(paths: set[str], prefix: str):
    with tempfile.TemporaryDirectory() as folder:
        made = plant(Path(folder), paths)
        first_of: dict[str, str] = {}
        for key in sorted((key for key in made if key.startswith(prefix)), key=str.encode):
            head, slash, _ = key[len(prefix) :].partition("/")
            first_of.setdefault(prefix + head + slash, key)
        assert list(files.iterate_keys(Path(folder), prefix=prefix, roll=True)) == list(
            first_of.values()
        )


def test_a_folder_deeper_than_pythons_stack_is_walked(tmp_path: Path):
    key = "/".join("d" for _ in range(900))
    (tmp_path / key).parent.mkdir(parents=True)
    (tmp_path / key).touch()
    assert list(files.iterate_keys(tmp_path)) == [key]


def test_a_missing_folder_has_no_keys(tmp_path: Path):
    assert list(files.iterate_keys(tmp_path / "none")) == []
    assert list(files.iterate_keys(tmp_path, prefix="none/")) == []
