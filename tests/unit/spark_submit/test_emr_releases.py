"""The table of EMR's releases: what it says of a label, and what it says when it has none."""

import re

import pytest

from headrace.spark_submit.emr_releases import (
    EMR,
    SERVERLESS,
    UnknownRelease,
    release_of,
    releases,
)


def test_a_label_says_which_spark_it_stands_for():
    # Documented: emr-spark800-release.html, Spark-release-history.html, emr-7130-release.html.
    newest = release_of("emr-spark-8.0.0")
    assert (newest.spark, newest.spark_version, newest.spark_minor) == (
        "4.0.2-amzn-0", "4.0.2", (4, 0),
    )  # fmt: skip
    assert (newest.python, newest.java, newest.scala) == ("3.11", 17, "2.13.16")
    assert release_of("emr-7.13.0").spark == "3.5.6-amzn-2"
    assert release_of("emr-7.13.0").python == "3.11"
    assert release_of("emr-7.12.0").python == "3.9"
    assert release_of("emr-6.8.1").spark_version == "3.3.0"


def test_each_release_is_whole_and_says_where_it_comes_from():
    labels = [release.label for release in releases()]
    assert len(labels) == len(set(labels))
    for release in releases():
        assert re.fullmatch(r"\d\.\d\.\d(-amzn-\d(\.\d)?)?", release.spark), release
        assert release.python in release.pythons
        assert release.source.startswith("https://docs.aws.amazon.com/emr/latest/")
        assert release.evidence in ("documented", "partly assumed", "reported")
        assert release.services
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", release.date)


def test_releases_of_one_service():
    # Documented: release-versions.html, "With Amazon EMR 6.6.0 and higher"; it lists no patch release.
    serverless = [release.label for release in releases(SERVERLESS)]
    assert "emr-spark-8.0-preview" in serverless
    assert {"emr-6.5.0", "emr-6.8.1"}.isdisjoint(serverless)
    ec2 = [release.label for release in releases(EMR)]
    assert {"emr-6.5.0", "emr-6.8.1"} <= set(ec2)
    assert "emr-spark-8.0-preview" not in ec2


@pytest.mark.parametrize(
    ("label", "hint"),
    [
        ("emr-7.99.0", "documented by"),
        ("emr-spark-9.0.0", "documented by"),
        ("emr-5.36.2", "before emr-6.0.0"),
        ("emr-7.1.7", ""),
        ("7.13.0", ""),
        ("", ""),
    ],
)
def test_an_unknown_label_says_whether_aws_may_have_it(label: str, hint: str):
    with pytest.raises(UnknownRelease) as raised:
        release_of(label)
    assert hint in raised.value.hint
    assert bool(hint) is bool(raised.value.hint)
