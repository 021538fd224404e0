"""ListReleaseLabels and DescribeReleaseLabel, from the table of releases."""

from __future__ import annotations

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import emr as shapes
from headrace.core.values import present
from headrace.services.emr.actions.common import page
from headrace.services.emr.backend import Emr
from headrace.services.emr.errors import RELEASE_LABELS_PER_PAGE, invalid_request, unknown_release
from headrace.spark_submit.emr_releases import EMR, Release, UnknownRelease, release_of, releases


def _applications(release: Release) -> list[tuple[str, str]]:
    """Return the applications in the table, with "the concise version" (API_DescribeReleaseLabel)."""
    versions = [("Hadoop", release.hadoop), ("Spark", release.spark)]
    return [(name, version.partition("-")[0]) for name, version in versions if version]


def _has(release: Release, application: str) -> bool:
    """Return whether a release has an application, given with its version (`Spark@3.5.6`) or without."""
    name, _, version = application.partition("@")
    return any(
        name.lower() == has.lower() and version in ("", number)
        for has, number in _applications(release)
    )


@operation("ListReleaseLabels")
def list_release_labels(
    emr: Emr, call: Call, request: shapes.ListReleaseLabelsInput
) -> shapes.ListReleaseLabelsOutput:
    """Return the labels of EMR on EC2, newest first, filtered by prefix and application."""
    filters = request.get("Filters") or {}
    prefix, application = filters.get("Prefix", ""), filters.get("Application", "")
    labels = [
        release.label
        for release in releases(EMR)
        if release.label.startswith(prefix) and (not application or _has(release, application))
    ]
    most = request.get("MaxResults", RELEASE_LABELS_PER_PAGE)
    shown, token = page(labels, request.get("NextToken"), most)
    return present({"ReleaseLabels": shown, "NextToken": token})


@operation("DescribeReleaseLabel")
def describe_release_label(
    emr: Emr, call: Call, request: shapes.DescribeReleaseLabelInput
) -> shapes.DescribeReleaseLabelOutput:
    """Return a release's applications; the table has no builds of Amazon Linux."""
    label = request.get("ReleaseLabel", "")
    try:
        release = release_of(label, EMR)
    except UnknownRelease as error:
        raise invalid_request(unknown_release(error)) from None
    applications: list[shapes.SimplifiedApplication] = [
        {"Name": name, "Version": version} for name, version in _applications(release)
    ]
    return {"ReleaseLabel": label, "Applications": applications, "AvailableOSReleases": []}
