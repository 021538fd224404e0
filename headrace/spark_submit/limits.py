"""headrace's own limits for watching a job's process and storing its logs."""

from __future__ import annotations

# How often a running process is checked, and how long it has to end after SIGTERM.
POLL_S = 0.1
CANCEL_GRACE_S = 10.0
STOP_GRACE_S = 3.0
# How often a running job's logs are copied to S3. AWS: "every 5 minutes" (EMR on EC2), which is long for a laptop.
KEEP_LOGS_EVERY_S = 2.0
# How much of the end of stderr is searched for the cause of a failure.
STDERR_TAIL_BYTES = 64 * 1024
LONGEST_MESSAGE = 1024
# How long a job's end waits for processes that were killed: only those that the kernel holds take longer.
KILLED_GRACE_S = 5
