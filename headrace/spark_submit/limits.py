"""Bounds on watching a job's process and keeping its logs: headrace's own."""

from __future__ import annotations

# How often a running process is looked at, and what it is given to end after SIGTERM.
POLL_S = 0.1
CANCEL_GRACE_S = 10.0
STOP_GRACE_S = 3.0
# How often a running job's logs go to S3. AWS: "every 5 minutes" (EMR on EC2), long for a laptop.
KEEP_LOGS_EVERY_S = 2.0
# Of stderr, what is searched for the cause of a failure.
STDERR_TAIL_BYTES = 64 * 1024
LONGEST_MESSAGE = 1024
