"""Where a job's Spark UI and event logs are, from files as Spark writes them."""

from __future__ import annotations

from pathlib import Path

from headrace.spark_submit.configuration import event_logs, live_url, ui_logging, ui_properties

STARTED = "Successfully started service 'SparkUI' on port {}.\n"
STOPPED = "Stopped Spark web UI at http://127.0.0.1:{}\n"


def _said(folder: Path, text: str) -> None:
    (folder / "conf").mkdir(exist_ok=True)
    (folder / "conf" / "ui.log").write_text(text)


def test_the_live_ui_is_where_the_driver_says(tmp_path: Path) -> None:
    _said(tmp_path, STARTED.format(41234))
    assert live_url(tmp_path) == "http://127.0.0.1:41234"


def test_there_is_no_live_ui_before_the_driver_has_one_and_after_it_stopped(tmp_path: Path) -> None:
    assert live_url(tmp_path) is None
    _said(tmp_path, "")
    assert live_url(tmp_path) is None
    _said(tmp_path, STARTED.format(1) + STOPPED.format(1))
    assert live_url(tmp_path) is None


def test_of_several_contexts_the_newest_has_the_live_ui(tmp_path: Path) -> None:
    _said(tmp_path, STARTED.format(1) + STOPPED.format(1) + STARTED.format(2))
    assert live_url(tmp_path) == "http://127.0.0.1:2"


def test_a_service_of_another_name_is_not_the_ui(tmp_path: Path) -> None:
    _said(tmp_path, "Successfully started service 'sparkDriver' on port 1.\n")
    assert live_url(tmp_path) is None


def test_event_logs_tell_their_applications_oldest_first(tmp_path: Path) -> None:
    events = tmp_path / "events"
    (events / "eventlog_v2_local-200").mkdir(parents=True)
    (events / "eventlog_v2_local-100").mkdir()
    (events / ".eventlog_v2_local-100.crc").touch()
    assert [log.application_id for log in event_logs(tmp_path)] == ["local-100", "local-200"]


def test_an_event_log_that_is_one_file_tells_its_application_too(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    (events / "local-1.zstd").touch()
    (events / "local-2.zstd.inprogress").touch()
    (events / "local-3").touch()
    found = [log.application_id for log in event_logs(tmp_path)]
    assert found == ["local-1", "local-2", "local-3"]


def test_a_job_without_event_logs_has_none(tmp_path: Path) -> None:
    assert event_logs(tmp_path) == []


def test_the_settings_name_folders_of_the_job_whatever_they_are_called(tmp_path: Path) -> None:
    folder = tmp_path / "a job"
    assert ui_properties(folder)["spark.eventLog.dir"] == f"file://{tmp_path}/a%20job/events"
    assert f"fileName = {folder}/conf/ui.log\n" in ui_logging(folder)
