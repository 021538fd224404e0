"""The locale of a job: UTF-8 wherever there is one, and a sentence where Java would lose a file without it."""

from __future__ import annotations

import locale
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.spark_submit import JobRefused, job_context
from headrace.spark_submit.configuration import in_ascii, properties_file, ui_logging
from headrace.spark_submit.job_context import require_utf8, utf8_environment

FOLDER = Path("/Jöb 作业 😀")


@pytest.fixture
def without_utf8(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine that has the locales C and POSIX only."""
    monkeypatch.setattr(job_context, "_UTF8_LOCALES", ("none-of-this-name.UTF-8",))
    job_context._utf8_setting.cache_clear()
    yield
    job_context._utf8_setting.cache_clear()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"LANG": "C", "LC_CTYPE": "C.UTF-8"}),
        ({"LC_ALL": "C"}, {"LANG": "C", "LC_CTYPE": "C.UTF-8"}),
        ({"LC_ALL": "POSIX", "LANG": "C.UTF-8"}, {"LANG": "POSIX", "LC_CTYPE": "C.UTF-8"}),
        ({"LC_ALL": "", "LANG": "C.UTF-8"}, {"LANG": "C.UTF-8"}),
        ({"LC_ALL": "C.UTF-8"}, {"LC_ALL": "C.UTF-8"}),
        # Not on this machine: Java takes a setting whole or not at all.
        ({"LANG": "none.UTF-8"}, {"LANG": "C", "LC_CTYPE": "C.UTF-8"}),
        ({"LANG": "none.UTF-8", "LC_CTYPE": "C.UTF-8"}, {"LANG": "C", "LC_CTYPE": "C.UTF-8"}),
    ],
)
def test_a_job_gets_utf8_and_keeps_the_rest(given: dict[str, str], expected: dict[str, str]):
    assert utf8_environment({"PATH": "/bin", **given}) == expected


@pytest.mark.parametrize("name", ["C", "POSIX"])
def test_programs_take_what_a_job_gets(name: str):
    environment = {**utf8_environment({"LC_ALL": name}), "PYTHONCOERCECLOCALE": "0"}
    program = "import locale; locale.setlocale(locale.LC_ALL, ''); print(locale.nl_langinfo(14))"
    assert locale.CODESET == 14
    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-c", program],
        env={"PATH": os.defpath, **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "UTF-8\n"


def test_without_a_utf8_locale_a_folder_beyond_ascii_is_refused_in_a_sentence(without_utf8: None):
    assert utf8_environment({"LC_ALL": "C"}) == {"LC_ALL": "C"}
    require_utf8({"LC_ALL": "C"}, Path("/plain"))
    with pytest.raises(
        JobRefused, match=r"^Java cannot name the folder /Jöb 作业 😀: it has letters"
    ):
        require_utf8({"LC_ALL": "C"}, Path("/plain"), FOLDER)


def test_with_one_no_folder_is_refused():
    require_utf8({"LC_ALL": "C"}, FOLDER)


def as_java_reads(text: str) -> str:
    """Read `\\uXXXX` of a properties file, pairs of surrogates too."""
    return text.encode("latin-1").decode("unicode_escape").encode("utf-16", "surrogatepass").decode(
        "utf-16"
    )  # fmt: skip


def test_properties_are_ascii_which_every_reader_of_javas_takes_alike():
    written = properties_file({"spark.ü": str(FOLDER)})
    assert written.isascii()
    assert as_java_reads(written) == f"spark.ü {FOLDER}\n"
    assert in_ascii("plain \\ text") == "plain \\ text"
    logging = ui_logging(FOLDER)
    assert logging.isascii()
    assert f"fileName = {FOLDER}/conf/ui.log" in as_java_reads(logging.replace("\\.", ""))
