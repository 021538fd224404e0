"""The tagging API's errors (AWS documents the codes; the sentences are assumed) and its limits with their sources."""

from __future__ import annotations

from headrace.aws.calls.errors import AwsError

# Documented: API_GetResources, ResourcesPerPage and TagsPerPage ("a minimum of 100 and a maximum of 500").
MOST_RESOURCES_PER_PAGE = 100
TAGS_PER_PAGE = (100, 500)
# Assumed: AWS documents that GetTagKeys and GetTagValues have pages, but not their size.
NAMES_PER_PAGE = 1000


def invalid_parameter(message: str) -> AwsError:
    """The request's parameters contradict each other or exceed a limit."""
    return AwsError("InvalidParameterException", message, 400)


def translate(error: Exception) -> AwsError | None:
    """Return None: this service raises AwsError itself."""
    return None
