"""The history server as a process: found, started, refused, and never left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any, cast

import pytest

from headrace.aws.calls.http import HttpRequest
from headrace.core.clock import SystemClock
from headrace.pages.spark import SparkPages
from headrace.spark_submit import HISTORY_PATH, JobRefused
from headrace.spark_submit.history import HistoryOnDemand, HistoryServer, link_event_logs
from tests.support.history_home import make_event_log, make_history_home
from tests.support.server import wait_until


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = make_history_home(tmp_path / "spark")
    monkeypatch.setenv("HEADRACE_SPARK_HOME", str(made))
    return made


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as page:
            return bool(page.status == 200)
    except OSError:
        return False


def _links(data_dir: Path) -> list[str]:
    return sorted(path.name for path in (data_dir / "spark-history" / "logs").iterdir())


def test_the_server_s_folder_links_to_every_job_s_event_logs(data_dir: Path) -> None:
    first = make_event_log(data_dir, "local-1")
    serverless = data_dir / "emr-serverless" / "a" / "r" / "2" / "events" / "eventlog_v2_local-2"
    serverless.mkdir(parents=True)
    found = link_event_logs(data_dir)
    assert sorted(found) == ["local-1", "local-2"]
    logs = data_dir / "spark-history" / "logs"
    assert (logs / "eventlog_v2_local-1").resolve() == first.resolve()
    assert (logs / "eventlog_v2_local-2").resolve() == serverless.resolve()


def test_links_follow_what_is_removed_renamed_and_moved(data_dir: Path) -> None:
    removed = make_event_log(data_dir, "local-1")
    (removed.parent / "local-2.zstd.inprogress").touch()
    link_event_logs(data_dir)
    removed.rmdir()
    (removed.parent / "local-2.zstd.inprogress").rename(removed.parent / "local-2.zstd")
    again = make_event_log(data_dir, "local-1", step="s-2")
    link_event_logs(data_dir)
    assert _links(data_dir) == ["eventlog_v2_local-1", "local-2.zstd"]
    logs = data_dir / "spark-history" / "logs"
    assert (logs / "eventlog_v2_local-1").resolve() == again.resolve()
    moved = data_dir.with_name("moved")
    data_dir.rename(moved)
    assert (moved / "spark-history" / "logs" / "local-2.zstd").is_file()


@pytest.mark.usefixtures("home")
def test_is_started_when_it_is_asked_for_and_ends_with_the_cloud(data_dir: Path) -> None:
    make_event_log(data_dir, "local-1")
    link_event_logs(data_dir)
    on_demand = HistoryOnDemand(SystemClock(), data_dir)
    assert on_demand.url is None
    try:
        url = on_demand.ensure("local-1")
        assert url == f"{on_demand.url}/history/local-1/jobs/"
        # The same one, for whoever asks next.
        assert on_demand.ensure() == f"{on_demand.url}/"
        assert url.startswith(f"{on_demand.url}/")
        assert _answers(on_demand.ensure())
    finally:
        on_demand.stop()
    assert not _answers(url)
    with pytest.raises(JobRefused, match="being stopped"):
        on_demand.ensure()


@pytest.mark.usefixtures("home")
def test_many_visitors_at_once_get_one_server(data_dir: Path) -> None:
    on_demand, urls = HistoryOnDemand(SystemClock(), data_dir), list[str]()
    threads = [threading.Thread(target=lambda: urls.append(on_demand.ensure())) for _ in range(8)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(urls) == 8
        assert len(set(urls)) == 1
    finally:
        on_demand.stop()


def test_one_that_has_ended_is_started_again(data_dir: Path, home: Path) -> None:
    on_demand = HistoryOnDemand(SystemClock(), data_dir)
    (home / "broken").touch()
    try:
        with pytest.raises(
            JobRefused, match="server ended: Exception in thread main: it is broken"
        ):
            on_demand.ensure()
        (home / "broken").unlink()
        assert _answers(on_demand.ensure())
    finally:
        on_demand.stop()


@pytest.mark.usefixtures("home")
def test_a_browser_is_told_that_it_starts_and_goes_on_by_itself(data_dir: Path) -> None:
    on_demand = HistoryOnDemand(SystemClock(), data_dir)
    pages = SparkPages(
        emr=cast("Any", None), serverless=cast("Any", None), sparks=cast("Any", None),
        history=on_demand, data_dir=data_dir, endpoint_url=lambda: "",
    )  # fmt: skip
    request = HttpRequest("GET", HISTORY_PATH, "", {"accept": "text/html,*/*"}, b"")
    try:
        first = pages._history(request, [])
        assert first.status == 200
        assert b"server is starting" in cast("bytes", first.body)
        assert b'http-equiv="refresh" content="1"' in cast("bytes", first.body)
        wait_until(lambda: on_demand.url, what="the server")
        assert dict(pages._history(request, []).headers)["Location"] == f"{on_demand.url}/"
    finally:
        on_demand.stop()


@pytest.mark.usefixtures("home")
def test_a_taken_port_is_refused_in_a_sentence(data_dir: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = HistoryServer(SystemClock(), data_dir, tmp_path / "server", port=port)
        with pytest.raises(JobRefused, match=rf"cannot listen on 127\.0\.0\.1:{port}: Address "):
            server.start()


def test_a_server_that_does_not_listen_is_quoted(
    data_dir: Path, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "bin" / "spark-class").write_text(
        "#!/bin/sh\necho it reads; echo it waits; sleep 600\n"
    )
    monkeypatch.setattr("headrace.spark_submit.history.START_WITHIN_S", 0.0)
    server = HistoryServer(SystemClock(), data_dir, tmp_path / "server")
    server.start()
    try:
        wait_until(lambda: "waits" in server.output.read_text(), what="the server's output")
        with pytest.raises(
            JobRefused, match=r"does not listen after 0 s; its last line: it waits$"
        ):
            server.wait()
    finally:
        server.stop()


@pytest.mark.usefixtures("home")
def test_no_java_is_refused_in_a_sentence(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("headrace.spark_submit.sparks.JAVA_FOLDERS", ())
    server = HistoryServer(SystemClock(), data_dir, tmp_path / "server")
    with pytest.raises(JobRefused, match="There is no java under JAVA_HOME"):
        server.start()


_STARTER = """
import sys, time
from pathlib import Path
from headrace.core.clock import SystemClock
from headrace.spark_submit.history import HistoryServer

server = HistoryServer(SystemClock(), Path(sys.argv[1]), Path(sys.argv[2]))
server.start()
print(server.wait(), flush=True)
time.sleep(600)
"""


@pytest.mark.usefixtures("home")
def test_nothing_is_left_behind_when_the_starting_process_is_killed(
    data_dir: Path, tmp_path: Path
) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", _STARTER, str(data_dir), str(tmp_path / "server")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert starter.stdout is not None
    with starter.stdout as output:
        url = output.readline().strip()
        assert _answers(url)
        os.kill(starter.pid, signal.SIGKILL)
        starter.wait()
    wait_until(lambda: not _answers(url), what="the end of the server")


def test_a_visitor_who_waits_does_not_hold_up_the_end_of_the_cloud(
    data_dir: Path, home: Path
) -> None:
    (home / "bin" / "spark-class").write_text("#!/bin/sh\nexec sleep 600\n")
    on_demand, said = HistoryOnDemand(SystemClock(), data_dir), list[str]()

    def visit() -> None:
        with pytest.raises(JobRefused) as raised:
            on_demand.ensure()
        said.append(str(raised.value))

    visitor = threading.Thread(target=visit)
    visitor.start()
    output = data_dir / "spark-history" / "server" / "output"
    wait_until(output.exists, what="the start of the server")
    on_demand.stop()
    visitor.join(10)
    assert not visitor.is_alive()
    assert len(said) == 1
