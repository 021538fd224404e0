"""The tagging API's limits, with their sources."""

from __future__ import annotations

# Documented: API_GetResources, ResourcesPerPage and TagsPerPage ("a minimum of 100 and a maximum of 500").
MOST_RESOURCES_PER_PAGE = 100
TAGS_PER_PAGE = (100, 500)
# Assumed: AWS documents that GetTagKeys and GetTagValues have pages, but not their size.
NAMES_PER_PAGE = 1000
