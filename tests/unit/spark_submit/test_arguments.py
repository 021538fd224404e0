"""spark-submit as on EMR, turned into spark-submit on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.spark_submit import JobRefused
from headrace.spark_submit.arguments import deploy_mode, local_submission, parse_submission
from headrace.spark_submit.commands import spark_arguments
from headrace.spark_submit.configuration import properties_file, spark_properties
from headrace.spark_submit.emr_releases import traits_of
from headrace.spark_submit.job_context import CLASSES


def local(uri: str) -> str:
    return uri.replace("s3://bucket/", "/local/")


def turned(*arguments: str) -> list[str]:
    return spark_arguments(
        local_submission(parse_submission(arguments), local, local), traits_of((4, 0))
    )


def test_the_cluster_is_replaced_by_this_machine() -> None:
    assert turned("--master", "yarn", "--deploy-mode", "cluster", "job.py") == [
        "--master",
        "local[*]",
        "--deploy-mode",
        "client",
        "job.py",
    ]
    assert turned("--master=yarn", "--deploy-mode=client", "job.py")[-1] == "job.py"


def test_only_the_application_and_file_lists_are_fetched() -> None:
    assert turned(
        "--py-files", "s3://bucket/a.zip,local.py", "--conf", "x=s3://bucket/y",
        "s3://bucket/job.py", "--in", "s3://bucket/in",
    ) == [
        "--master", "local[*]", "--deploy-mode", "client", "--py-files", "/local/a.zip,local.py", "--conf", "x=s3://bucket/y",
        "/local/job.py", "--in", "s3://bucket/in",
    ]  # fmt: skip


def test_switches_take_no_value() -> None:
    submission = parse_submission(["--verbose", "--class", "Main", "job.jar", "--verbose"])
    assert submission.options == [("--verbose", None), ("--class", "Main")]
    assert submission.application == "job.jar"
    assert submission.arguments == ["--verbose"]


def test_an_option_may_be_joined_to_its_value() -> None:
    assert parse_submission(["--conf=a=b", "j.py"]).options == [("--conf", "a=b")]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [([], "no application"), (["--conf"], "--conf lacks"), (["--conf", "a=b"], "no application")],
)
def test_what_cannot_be_submitted_is_refused(arguments: list[str], sentence: str) -> None:
    with pytest.raises(JobRefused, match=sentence):
        parse_submission(arguments)


def test_every_bucket_becomes_a_mount() -> None:
    properties = spark_properties(
        buckets={"my.bucket": Path("/data dir/s3/my.bucket")}, cores=2, spark=traits_of((4, 0))
    )
    key = "spark.hadoop.fs.viewfs.mounttable.my.bucket.linkFallback"
    assert properties[key] == "file:///data%20dir/s3/my.bucket"
    names = {value for value in properties.values() if value.startswith("LocalFiles")}
    assert all((CLASSES / f"{name}.class").is_file() for name in names)
    assert len(names) == 3


def test_properties_keep_their_backslashes_and_lines() -> None:
    assert properties_file({"a": "b\\c\nd"}) == "a b\\\\c\\nd\n"


@pytest.mark.parametrize(
    ("arguments", "defaults", "mode"),
    [
        ([], {}, "client"),
        (["--deploy-mode", "cluster"], {}, "cluster"),
        (["--conf", "spark.submit.deployMode=cluster"], {}, "cluster"),
        ([], {"spark.submit.deployMode": "cluster"}, "cluster"),
        (
            ["--conf", "spark.submit.deployMode=client"],
            {"spark.submit.deployMode": "cluster"},
            "client",
        ),
        (["--deploy-mode=client", "-c", "spark.submit.deployMode=cluster"], {}, "client"),
        (["--deploy-mode", "client", "--deploy-mode", "cluster"], {}, "cluster"),
    ],
)
def test_the_drivers_place_is_what_was_said_last_and_closest(
    arguments: list[str], defaults: dict[str, str], mode: str
) -> None:
    assert deploy_mode(parse_submission([*arguments, "job.py"]), defaults) == mode


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--deploy-mode", "somewhere"], "must be either"),
        (["--deploy-mode", "cluster", "--master", "local"], "not compatible"),
        (["--deploy-mode", "cluster", "--conf", "spark.master=local[4]"], "not compatible"),
    ],
)
def test_a_place_that_spark_would_refuse_is_refused(arguments: list[str], sentence: str) -> None:
    with pytest.raises(JobRefused, match=sentence):
        deploy_mode(parse_submission([*arguments, "job.py"]), {})


def test_a_properties_file_does_not_take_the_clouds_own_settings_away() -> None:
    assert "--load-spark-defaults" in turned("--properties-file", "job.conf", "job.py")
