"""`headrace status` fits the terminal, and breaks no address or path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli import down_status

PAGE = {
    "status": "ok",
    "version": "0.1.0",
    "pid": 5,
    "endpoint_url": "http://127.0.0.1:7300",
    "services": [f"service-{number}" for number in range(30)],
    "moto": "failed",
    "moto_failure": "the state of a service cannot be read, " * 5,
    "losses": [],
}


@pytest.mark.parametrize("columns", [10, 40, 80, 200])
def test_status_fits_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    data_dir = tmp_path / "a folder whose long name has spaces"
    data_dir.mkdir()
    page: dict[str, Any] = {**PAGE, "data_dir": str(data_dir)}
    monkeypatch.setattr(down_status, "health", lambda _: page)
    monkeypatch.setenv("COLUMNS", str(columns))
    done = CliRunner().invoke(down_status.status, ["--data-dir", str(data_dir)])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert f"data dir      {data_dir}" in lines
    assert "endpoint url  http://127.0.0.1:7300" in lines
    assert all(len(line) <= max(columns, 36) for line in lines if str(data_dir) not in line)
    words = done.output.split()
    assert all(f"{service}," in words for service in PAGE["services"][:-1])
    assert not any(line.endswith(" ") for line in lines)
