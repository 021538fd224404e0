"""Commands find the cloud of their folder, and take times as people say them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click import ClickException

from headrace.cli import tail
from headrace.cli.options import parse_moment
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


NOW = datetime(2026, 11, 28, 12, 0, 30, tzinfo=UTC)


@pytest.fixture
def zurich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Zurich")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zurich")
@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("30s", "2026-11-28T12:00:00Z"),
        ("5m", "2026-11-28T11:55:30Z"),
        ("2h", "2026-11-28T10:00:30Z"),
        ("1d", "2026-11-27T12:00:30Z"),
        # The machine's clock shows 13:00:30.
        ("12:40", "2026-11-28T11:40:00Z"),
        ("9:05", "2026-11-28T08:05:00Z"),
        ("13:00:30", "2026-11-28T12:00:30Z"),
        ("13:00:31", "2026-11-27T12:00:31Z"),
        ("18:40", "2026-11-27T17:40:00Z"),
        ("2026-11-28T10:00", "2026-11-28T10:00:00Z"),
        ("2026-11-28T10:00:00+01:00", "2026-11-28T09:00:00Z"),
        ("2026-11-28", "2026-11-28T00:00:00Z"),
    ],
)
def test_a_time_is_iso_of_the_clock_or_so_long_ago(text: str, at: str) -> None:
    assert parse_moment(text, "--from", now=NOW) == datetime.fromisoformat(at)


@pytest.mark.parametrize(
    "text", ["5", "m", "5 m", "-5m", "5w", "yesterday", "24:00", "7:60", "999999d", "1:2:3", ""]
)
def test_another_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ClickException, match=r"--since .* is not a time; .* 18:40 .* 5m"):
        parse_moment(text, "--since")


def test_tail_begins_at_a_time_or_an_end() -> None:
    position = tail._position  # pyright: ignore[reportPrivateUsage]
    assert [position("latest"), position("TRIM_HORIZON")] == ["LATEST", "TRIM_HORIZON"]
    assert position("2026-11-28") == datetime(2026, 11, 28, tzinfo=UTC)
