"""Lambda's quotas.

Sources: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html (documented) and the API
reference's parameter ranges. Limits marked "local" are headrace's own.
"""

from __future__ import annotations

SYNC_PAYLOAD_BYTES = 6 * 1024 * 1024
ASYNC_PAYLOAD_BYTES = 1024 * 1024
# Six megabytes and the hundred bytes that AWS's own error message counts.
RESPONSE_PAYLOAD_BYTES = 6_291_556
# A streamed response. Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-response-streaming.html
STREAM_BYTES = 200 * 1024 * 1024
DIRECT_ZIP_BYTES = 50 * 1024 * 1024
UNZIPPED_BYTES = 262_144_000
# Local: an archive with more entries than this is refused as a zip bomb.
ZIP_ENTRIES = 100_000
ENVIRONMENT_BYTES = 4096
LAYERS_PER_FUNCTION = 5
MOST_TAGS = 50
# Local: how long an update is in progress; other updates are refused meanwhile. On AWS it takes a second or more.
UPDATE_LASTS_MS = 200
POLICY_BYTES = 20 * 1024
TIMEOUT_SECONDS = 900
LOG_TAIL_BYTES = 4096
# The largest event of CloudWatch Logs, minus its overhead of 26 bytes.
LOG_EVENT_BYTES = 262_118
# Local: how much of an invocation's output is kept, so that a function that writes for ever does not fill the memory.
LOG_INVOCATION_BYTES = 32 * 1024 * 1024
INIT_SECONDS = 10
ACCOUNT_CONCURRENCY = 1000
UNRESERVED_CONCURRENCY_LEFT = 100
ASYNC_MAXIMUM_AGE_SECONDS = 21_600
ASYNC_RETRIES = 2
ASYNC_RETRY_DELAYS_SECONDS = (60, 120)

# Local: how many processes a version has at a time; more synchronous calls wait for one of them. A function with more
# reserved or provisioned concurrency gets more processes, up to the second number.
SANDBOXES_PER_FUNCTION = 10
SANDBOXES_AT_MOST = 64
SANDBOX_WAIT_SECONDS = 60
SANDBOX_IDLE_SECONDS = 300
# Local: how long a process's credentials are valid, and how long they must still be valid when an invocation starts,
# which may last a quarter of an hour. AWS, too, ends an execution environment every few hours.
CREDENTIALS_SECONDS = 12 * 3600
CREDENTIALS_LEFT_SECONDS = 3600

STREAM_BATCH_SIZE = 100
