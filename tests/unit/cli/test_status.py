"""`headrace status` fits the terminal, breaks no address or path, and lists all clouds with --all."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli import down_status, running_cloud
from headrace.store.data_dir import lock as hold_data_dir

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
    # Nothing answers there: the rest is shown all the same.
    assert "pipeline" in done.output
    assert all(len(line) <= max(columns, 36) for line in lines if str(data_dir) not in line)
    words = done.output.split()
    assert all(f"{service}," in words for service in PAGE["services"][:-1])
    assert not any(line.endswith(" ") for line in lines)


def test_the_pipeline_is_in_words_by_the_page_s_api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    def answer(url: str, path: str) -> dict[str, Any]:
        asked.append((url, path))
        if path == "api/addresses":
            kinds = ("HTTP API", "WebSocket API")
            return {"addresses": [{"kind": kind, "name": "a", "path": "/x/s"} for kind in kinds]}
        rows: list[dict[str, Any]] = [
            {"kind": "function", "name": "f", "facts": {}, "problem": "2.0 errors a second"},
            {
                "kind": "mapping",
                "name": "u",
                "facts": {"source": "stream:orders", "function": "function:g"},
                "reading": [1.0, None, 0, 9, 61_500, ""],
            },
            *({"kind": "delivery", "name": name, "facts": {}} for name in "ab"),
        ]
        refusal = {"service": "sqs", "operation": "ListQueues", "code": "Starting", "message": ""}
        rows = [{"problem": "", "reading": None, **row} for row in rows]
        return {"resources": rows, "refused": [refusal]}

    page = {**PAGE, "data_dir": str(tmp_path)}
    monkeypatch.setattr(down_status, "health", lambda _: page)
    monkeypatch.setattr(down_status, "fetch_page", answer)
    monkeypatch.setenv("COLUMNS", "200")
    done = CliRunner().invoke(down_status.status, ["--data-dir", str(tmp_path)])
    for line in (
        "pipeline      1 function, 1 mapping, 2 deliveries",
        "failing       function f: 2.0 errors a second",
        "late          mapping stream:orders → function:g: 61.5 s",
        "not read      sqs:ListQueues: Starting",
        "addresses     http://127.0.0.1:7300/x/s  HTTP API a",
        "              ws://127.0.0.1:7300/x/s  WebSocket API a",
    ):
        assert line in done.output.splitlines()
    assert asked == [(PAGE["endpoint_url"], f"api/{page}") for page in ("resources", "addresses")]
    written = CliRunner().invoke(down_status.status, ["--json", "--data-dir", str(tmp_path)])
    assert [row["name"] for row in json.loads(written.output)["pipeline"]["resources"]] == [*"fuab"]


def test_all_clouds_that_hold_a_lock_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setattr(down_status, "health", lambda _: None)
    with ExitStack() as stack:
        for folder in (first, second):
            folder.mkdir()
            (folder / "headrace.json").write_text("{}")
            stack.callback(hold_data_dir(folder).close)
        both = CliRunner().invoke(down_status.status, ["--all"])
    assert both.exit_code == 0, both.output
    lines = [line for line in both.output.splitlines() if str(tmp_path) in line]
    assert [line.split() for line in lines] == [
        ["-", "-", "does", "not", "answer", str(folder)] for folder in (first, second)
    ]
    none = CliRunner().invoke(down_status.status, ["--all", "--json"])
    assert str(tmp_path) not in none.output


def test_without_a_list_of_locks_all_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_list() -> list[str]:
        raise FileNotFoundError

    monkeypatch.setattr(running_cloud, "_kernel_locks", no_list)
    done = CliRunner().invoke(down_status.status, ["--all"])
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert "does not list file locks" in done.output


@pytest.mark.parametrize(
    ("kind", "several"), [("stream", "streams"), ("delivery", "deliveries"), ("bus", "buses")]
)
def test_kinds_have_their_plurals(kind: str, several: str) -> None:
    row = {"kind": kind, "name": "x", "facts": {}, "problem": "", "reading": None}
    answer = {"resources": [row, row], "refused": []}
    assert down_status.describe_pipeline(answer) == {"pipeline": f"2 {several}"}


def test_a_url_names_the_cloud_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(url: str) -> dict[str, Any]:
        asked.append(url)
        return PAGE if "7300" in url else {}

    monkeypatch.setattr(down_status, "health_at", answer)
    monkeypatch.setattr(down_status, "read_pipeline", lambda _: {"resources": [], "refused": []})
    monkeypatch.setattr(down_status, "read_addresses", lambda _: [])
    done = CliRunner().invoke(
        down_status.status, ["--endpoint-url", "http://localhost:7300/", "--json"]
    )
    assert (done.exit_code, asked) == (0, ["http://localhost:7300"])
    shown = json.loads(done.output)
    assert (shown["pid"], shown["endpoint_url"]) == (5, "http://localhost:7300")
    done = CliRunner().invoke(down_status.status, ["--endpoint-url", "http://localhost:7301"])
    assert done.exit_code == 1
    assert "No headrace answers at http://localhost:7301." in done.output
