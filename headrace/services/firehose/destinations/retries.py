"""When a batch that was refused is tried again, and when no more."""

from __future__ import annotations

from random import Random

HTTP_FIRST_S = 1.0
HTTP_MOST_S = 120.0
HTTP_JITTER = 0.15
# Documented for OpenSearch and Redshift: every five minutes.
EVERY_FIVE_MINUTES_S = 300.0


def exponential_s(retry: int, random: Random) -> float:
    """Return the seconds before the `retry`-th retry, 1 for the first.

    Source: docs.aws.amazon.com/firehose/latest/dev/httpdeliveryrequestresponse.html: one second, doubled each time, two
    minutes at most, with 15 % of jitter (documented; its formula writes MAX where its words say a maximum).
    """
    wait_s = min(HTTP_MOST_S, HTTP_FIRST_S * 2.0 ** min(retry - 1, 16))
    return wait_s * random.uniform(1 - HTTP_JITTER, 1 + HTTP_JITTER)


def five_minutes_s(retry: int, random: Random) -> float:
    """Return the seconds before a retry of OpenSearch's or Redshift's."""
    return EVERY_FIVE_MINUTES_S


def is_over(*, failed_first_ms: int, waited_ms: int, now_ms: int, duration_s: int) -> bool:
    """Whether the retry duration has passed, which begins with the first failure.

    Args:
        failed_first_ms: when the batch failed for the first time.
        waited_ms: how long answers were waited for since, which does not count.
        now_ms: the time.
        duration_s: the delivery stream's RetryOptions; 0 means no retry.
    """
    return now_ms - failed_first_ms - waited_ms >= duration_s * 1000
