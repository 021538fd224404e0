"""Commands find the cloud of their folder, and `tail` takes a time that is so long ago."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click import ClickException

from headrace.cli import tail
from headrace.cli.running_cloud import find_endpoint_url

DEFAULT = "http://127.0.0.1:4566"


def note_cloud(folder: Path, url: str) -> None:
    folder.mkdir()
    (folder / "headrace.json").write_text(json.dumps({"pid": 1, "endpoint_url": url}))


def test_the_cloud_is_that_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_DATA_DIR", raising=False)
    assert find_endpoint_url() == DEFAULT
    note_cloud(tmp_path / ".headrace", "http://127.0.0.1:5200")
    assert find_endpoint_url() == "http://127.0.0.1:5200"
    note_cloud(tmp_path / "other", "http://127.0.0.1:5201")
    monkeypatch.setenv("HEADRACE_DATA_DIR", str(tmp_path / "other"))
    assert find_endpoint_url() == "http://127.0.0.1:5201"
    (tmp_path / "other" / "headrace.json").write_text("no json")
    assert find_endpoint_url() == DEFAULT


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("2h", timedelta(hours=2)),
        ("1d", timedelta(days=1)),
    ],
)
def test_tail_begins_so_long_ago(text: str, ago: timedelta) -> None:
    before = datetime.now(UTC)
    position = tail._position(text)  # pyright: ignore[reportPrivateUsage]
    assert before - ago <= position <= datetime.now(UTC) - ago


@pytest.mark.parametrize("text", ["5", "m", "5 m", "-5m", "5w", "yesterday"])
def test_another_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ClickException, match="as in 5m"):
        tail._position(text)  # pyright: ignore[reportPrivateUsage]
