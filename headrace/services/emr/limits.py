"""EMR's quotas and headrace's own limits, with their sources."""

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
# Documented: API_CancelSteps, "A maximum of 256 steps are allowed in each CancelSteps request".
MOST_CANCELLED_STEPS = 256
# Documented: API_AutoTerminationPolicy, IdleTimeout 60 to 604800.
SHORTEST_IDLE_S = 60
LONGEST_IDLE_S = 604_800
DEFAULT_IDLE_S = 3600
# Documented: API_ListReleaseLabels, "The default is 100"; the model's maximum too.
RELEASE_LABELS_PER_PAGE = 100
# Documented: a cluster has one master or three (emr-plan-ha).
MASTERS_OF_HIGH_AVAILABILITY = 3
# Documented: API_DescribeJobFlows, job flows created within the last two weeks.
JOB_FLOWS_SHOWN_MS = 14 * 24 * 3600 * 1000
# Documented: EMR Management Guide, "up to 48 task instance groups".
MOST_TASK_GROUPS = 48
# Assumed: AWS documents that ListInstances has pages, but not their size.
INSTANCES_PER_PAGE = 2000
# Documented: "metrics are updated every five minutes" (Monitoring Amazon EMR metrics with CloudWatch).
METRICS_EVERY_S = 300.0
# Observed (mrjob): "No more than 3 digits are allowed after decimal place in bid price".
MOST_DECIMALS_OF_A_BID = 3
