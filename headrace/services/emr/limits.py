"""EMR's quotas and headrace's own bounds, with their sources."""

from __future__ import annotations

# Documented: "a maximum of 256 PENDING and ACTIVE steps" (EMR Management Guide, work with steps).
MOST_ACTIVE_STEPS = 256
# Documented: API_RunJobFlow, StepConcurrencyLevel; CLI help "maximum 256".
MOST_CONCURRENT_STEPS = 256
# Documented: API_ListSteps and API_ListClusters, "up to 50 (per page)".
STEPS_PER_PAGE = 50
CLUSTERS_PER_PAGE = 50
# Documented: API_ListSteps, at most 10 StepIds.
MOST_STEP_IDS = 10
# Documented: API_AutoTerminationPolicy, IdleTimeout 60 to 604800.
SHORTEST_IDLE_S = 60
LONGEST_IDLE_S = 604_800
DEFAULT_IDLE_S = 3600

# Ours: how often a running process is looked at, and what it is given to end after SIGTERM.
POLL_S = 0.1
CANCEL_GRACE_S = 10.0
STOP_GRACE_S = 3.0
# Ours: how often a running step's logs go to LogUri. AWS: "every 5 minutes", long for a laptop.
KEEP_LOGS_EVERY_S = 2.0
# Ours: of stderr, what is searched for the cause of a failure.
STDERR_TAIL_BYTES = 64 * 1024
LONGEST_MESSAGE = 1024
