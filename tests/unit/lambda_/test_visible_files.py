"""What functions are shown of a machine, whatever is installed where."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from headrace.services.lambda_.runtime import visible_files as view_module
from headrace.services.lambda_.runtime.namespaces import OwnMounts, _plan, _process_mounts
from headrace.services.lambda_.runtime.visible_files import (
    OPT,
    TASK,
    VisibleFiles,
    covers,
    find_visible_files,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home directory, with secrets in it."""
    home = tmp_path / "home" / "user"
    (home / ".aws").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home


def shows(view: VisibleFiles, path: Path) -> bool:
    return covers((*view.seen, *view.folders), path) and not covers(view.hidden, path)


def test_the_system_and_the_interpreters_are_seen(tmp_path: Path) -> None:
    view = find_visible_files(tmp_path / "data")
    for path in (sys.prefix, sys.base_prefix, os.__file__, pytest.__file__):
        assert shows(view, Path(path).resolve()) or Path(path).resolve().is_relative_to("/usr")
    assert Path("/etc") in view.seen
    # A path inside of another would be shown twice.
    assert not [a for a in view.seen for b in view.seen if a != b and a.is_relative_to(b)]


def test_homes_and_the_data_directory_are_not_seen(tmp_path: Path, home: Path) -> None:
    view = find_visible_files(tmp_path / "data")
    for path in (home, home / ".aws", tmp_path / "data", Path("/var/log"), Path("/etc/shadow")):
        assert not shows(view, path)


@pytest.mark.parametrize("above", [False, True])
def test_of_an_interpreter_in_the_home_directory_itself_only_its_own_folders_are_seen(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, above: bool
) -> None:
    prefix = home.parent if above else home
    (prefix / "lib").mkdir()
    (prefix / "bin").mkdir()
    monkeypatch.setattr(sys, "prefix", str(prefix))
    view = find_visible_files(tmp_path / "data")
    assert shows(view, prefix / "lib")
    assert shows(view, prefix / "bin")
    assert not shows(view, home / "diary.txt")
    assert not shows(view, home / ".aws")


def test_a_data_directory_inside_of_what_is_seen_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "venv" / "data"
    data.mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    alias = tmp_path / "alias"
    alias.symlink_to(data)
    view = find_visible_files(alias)
    assert shows(view, tmp_path / "venv")
    assert not shows(view, data / "state.sqlite")
    assert not shows(view, alias)


def test_what_the_cloud_imports_from_elsewhere_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {name: tmp_path / name for name in ("pth", "pythonpath", "cwd")}
    for folder in folders.values():
        folder.mkdir()
    monkeypatch.chdir(folders["cwd"])
    monkeypatch.setenv("PYTHONPATH", str(folders["pythonpath"]))
    monkeypatch.setattr(sys, "path", [*sys.path, "", *map(str, folders.values())])
    view = find_visible_files(tmp_path / "data")
    assert [name for name, folder in folders.items() if shows(view, folder)] == ["pth"]


def test_links_on_the_way_to_an_interpreter_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "versions" / "3.12.5"
    (real / "bin").mkdir(parents=True)
    (real / "bin" / "python3.12").touch()
    (tmp_path / "versions" / "3.12").symlink_to(real)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("../versions/3.12/bin/python3.12")
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "versions" / "3.12"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    view = find_visible_files(tmp_path / "data")
    for path in ("bin/python", "versions/3.12", "versions/3.12.5"):
        assert shows(view, tmp_path / path)


def test_a_user_without_a_home_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert view_module._list_homes() == []
    assert find_visible_files(tmp_path).seen


def test_path_begins_with_the_interpreters_and_has_nothing_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}/secret/bin:/usr/bin:/usr/local/bin")
    path = find_visible_files(tmp_path / "data").path.split(os.pathsep)
    assert path[0] == str(Path(sys.executable).parent)
    assert "/usr/bin" in path
    assert f"{tmp_path}/secret/bin" not in path


# --- what each process has to itself ----------------------------------------------------------


def test_layers_lie_beside_an_interpreter_in_opt(tmp_path: Path) -> None:
    """GitHub's runners have their interpreters in /opt/hostedtoolcache."""
    python = OPT / "hostedtoolcache" / "Python" / "3.12"
    view = VisibleFiles(seen=(Path("/usr"), python), links=(), folders=(), hidden=())
    layers = tmp_path / "layers"
    (layers / "python").mkdir(parents=True)
    (layers / "tool").touch()
    assert str(python) not in _plan(view, tmp_path, None)["seen"]
    mounts = _process_mounts(view, OwnMounts(tmp_path / "code", layers, 512), tmp_path / "data")
    assert mounts["fresh_opt"]
    assert sorted(mounts["own"]) == sorted(
        [
            ["/var/task", str(tmp_path / "code")],
            ["/opt/python", str(layers / "python")],
            ["/opt/tool", str(layers / "tool")],
            [str(python), str(python)],
        ]
    )


def test_what_is_seen_in_tmp_lies_in_the_functions_own(tmp_path: Path) -> None:
    view = VisibleFiles(
        (Path("/usr"), Path("/tmp/venv")), (), (Path("/tmp/shared"),), (Path("/tmp/x"),)
    )
    assert _plan(view, tmp_path, None)["seen"] == ["/usr"]
    assert _plan(view, tmp_path, None)["folders"] == []
    mounts = _process_mounts(view, OwnMounts(tmp_path / "code", None, 512), tmp_path / "data")
    assert ["/tmp/venv", "/tmp/venv"] in mounts["own"]
    assert mounts["own_folders"] == ["/tmp/shared"]
    assert mounts["hidden"] == ["/tmp/x"]
    assert not mounts["fresh_opt"]


def test_the_data_directory_in_a_folder_of_code_is_hidden(tmp_path: Path) -> None:
    view = VisibleFiles((), (), (), ())
    own = OwnMounts(tmp_path, None, 512)
    hidden = _process_mounts(view, own, tmp_path / "a" / "data")["hidden"]
    assert hidden == [str(TASK / "a" / "data")]
