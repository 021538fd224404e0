"""Cloud Control's limits, with their sources."""

from __future__ import annotations

# Documented: API_ListResourceRequests and API_ListResources, MaxResults ("The default is 20", "100").
REQUESTS_PER_PAGE = 20
RESOURCES_PER_PAGE = 100
# Documented: AWS keeps requests for seven days after they were made (resource-operations-manage-requests).
KEPT_MS = 7 * 24 * 3600 * 1000
# headrace's own limit: how many operations run at a time.
AT_ONCE = 4
