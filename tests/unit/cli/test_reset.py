"""`headrace reset` removes the data of a stopped cloud, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.commands import headrace
from headrace.store.data_dir import lock


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "streams" / "s").mkdir(parents=True)
    (folder / "streams" / "s" / "log").write_text("records")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_text("mine")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "state.sqlite").write_text("state")
    return folder


def run(data_dir: Path, *more: str, answer: str = "") -> tuple[int, str]:
    done = CliRunner().invoke(headrace, ["reset", "--data-dir", str(data_dir), *more], input=answer)
    return done.exit_code, done.output


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("more", "answer"), [(["--yes"], ""), ([], "y\n")])
def test_all_data_is_removed_but_not_what_a_link_names(
    data_dir: Path, tmp_path: Path, more: list[str], answer: str
) -> None:
    code, said = run(data_dir, *more, answer=answer)
    assert code == 0, said
    assert names(data_dir) == ["lock"]
    assert (tmp_path / "outside" / "kept").read_text() == "mine"


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_without_a_yes_everything_stays(data_dir: Path, answer: str) -> None:
    code, said = run(data_dir, answer=answer)
    assert code == 1
    assert "(link, streams, state.sqlite)" in said
    assert names(data_dir) == ["link", "lock", "state.sqlite", "streams"]


def test_a_cloud_that_runs_keeps_its_data(data_dir: Path) -> None:
    with lock(data_dir):
        code, said = run(data_dir, "--yes")
    assert code == 1
    assert "stop it first: headrace down" in said
    assert (data_dir / "streams" / "s" / "log").exists()


def test_a_folder_that_is_no_clouds_is_refused(data_dir: Path) -> None:
    (data_dir / "state.sqlite").unlink()
    code, said = run(data_dir, "--yes")
    assert (code, "There is no data of a cloud in" in said) == (1, True)
    assert (data_dir / "streams").exists()


def test_the_current_folder_is_refused(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data_dir / "streams")
    code, said = run(Path(".."), "--yes")
    assert (code, "which is not a cloud's data" in said) == (1, True)
    assert (data_dir / "state.sqlite").exists()
