"""The delays before retries of a refused batch."""

from __future__ import annotations

_FIRST_S = 1.0
_MOST_S = 120.0
_JITTER = 0.15
# Documented for OpenSearch and Redshift: every five minutes.
EVERY_FIVE_MINUTES_S = 300.0


def compute_backoff_s(retry: int, random: float) -> float:
    """Return the seconds before the `retry`-th retry, 1 for the first. `random` is in [0, 1).

    Source: docs.aws.amazon.com/firehose/latest/dev/httpdeliveryrequestresponse.html: one second, doubled each time, two
    minutes at most, with 15 % of jitter (documented; the formula has MAX where the text describes an upper limit).
    """
    wait_s = min(_MOST_S, _FIRST_S * 2.0 ** min(retry - 1, 16))
    return wait_s * (1 - _JITTER + 2 * _JITTER * random)
