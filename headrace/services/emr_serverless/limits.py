"""EMR Serverless' quotas and defaults, with their sources."""

from __future__ import annotations

# Documented: API_ListApplications, API_ListJobRuns, API_ListJobRunAttempts, maxResults.
LONGEST_PAGE = 50
# Documented: EMR Serverless User Guide, "Job resiliency".
MOST_BATCH_ATTEMPTS = 10
MOST_FAILED_ATTEMPTS_PER_HOUR = 10
DEFAULT_FAILED_ATTEMPTS_PER_HOUR = 5
# Documented: API_StartJobRun, executionTimeoutMinutes; batch jobs "12 hours by default", streaming jobs never.
DEFAULT_TIMEOUT_MINUTES = 720
# Documented: API_AutoStopConfig, "Defaults to 15 minutes".
DEFAULT_IDLE_MINUTES = 15
# Documented: State details have at most 256 characters (String256).
LONGEST_DETAILS = 256
# From AWS's answer to a shorter timeout: "RunTimeout must be at least 5 minutes."
SHORTEST_TIMEOUT_MINUTES = 5
