"""Release labels: which there are, what is in them, and that no cluster is made of another."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from headrace.spark_submit.emr_releases import EMR, releases
from tests.api.emr.conftest import Lab


def test_labels_are_listed_newest_first_page_by_page(lab: Lab) -> None:
    every = [release.label for release in releases(EMR)]
    first = lab.emr.list_release_labels(MaxResults=3)
    assert first["ReleaseLabels"] == every[:3]
    rest = lab.emr.list_release_labels(NextToken=first["NextToken"])
    assert rest["ReleaseLabels"] == every[3:]
    assert "NextToken" not in rest


def test_labels_are_filtered_by_prefix_and_by_application(lab: Lab) -> None:
    def found(**filters: str) -> list[str]:
        return lab.emr.list_release_labels(Filters=filters)["ReleaseLabels"]

    assert found(Prefix="emr-spark-8") == ["emr-spark-8.1.0", "emr-spark-8.0.0"]
    # The form is Terraform's, of aws_emr_release_labels: `spark@2.1.0`.
    assert found(Application="spark@3.5.6") == ["emr-7.13.0", "emr-7.12.0", "emr-7.11.0"]
    assert found(Application="Spark@3.4.1", Prefix="emr-6.14") == ["emr-6.14.0"]
    assert found(Application="Spark") == [release.label for release in releases(EMR)]
    assert found(Application="Presto@1") == []


def test_a_marker_of_somebody_else_is_refused(lab: Lab) -> None:
    with pytest.raises(ClientError) as raised:
        lab.emr.list_release_labels(NextToken="mine")
    assert raised.value.response["Error"]["Code"] == "InvalidRequestException"


def test_a_label_is_described_with_its_applications(lab: Lab) -> None:
    # API_DescribeReleaseLabel: "Version is the concise version of the application".
    found = lab.emr.describe_release_label(ReleaseLabel="emr-7.13.0")
    assert found["ReleaseLabel"] == "emr-7.13.0"
    assert found["Applications"] == [
        {"Name": "Hadoop", "Version": "3.4.2"},
        {"Name": "Spark", "Version": "3.5.6"},
    ]


@pytest.mark.parametrize("label", ["emr-7.1.7", "7.13.0", "emr-spark-8.0-preview"])
def test_an_unknown_label_is_refused(lab: Lab, label: str) -> None:
    # Observed in public reports of RunJobFlow: "The supplied release label is invalid: emr-5.3.1." EC2 has no preview.
    with pytest.raises(ClientError) as raised:
        lab.cluster(ReleaseLabel=label)
    assert raised.value.response["Error"] == {
        "Code": "ValidationException",
        "Message": f"The supplied release label is invalid: {label}.",
    }
    # Assumed: the same sentence, with the newer operations' code.
    with pytest.raises(ClientError) as raised:
        lab.emr.describe_release_label(ReleaseLabel=label)
    assert raised.value.response["Error"]["Code"] == "InvalidRequestException"
    assert lab.emr.list_clusters()["Clusters"] == []


def test_a_label_that_aws_may_have_says_why_it_is_not_known_here(lab: Lab) -> None:
    with pytest.raises(ClientError, match=r"invalid: emr-7\.99\.0\. \(headrace knows the releases"):
        lab.cluster(ReleaseLabel="emr-7.99.0")
    with pytest.raises(
        ClientError, match=r"invalid: emr-5\.36\.2\. \(headrace has no releases bef"
    ):
        lab.cluster(ReleaseLabel="emr-5.36.2")
