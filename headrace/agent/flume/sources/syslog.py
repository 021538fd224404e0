"""Syslog messages (RFC 3164 and 5424) to events, as Flume's parser makes them.

Observed in Flume's source (SyslogUtils, release 1.11): the headers, what of a message is the body, how a time without
a year gets one.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from headrace.agent.flume.events import Event

LEAST_SIZE, SIZE = 10, 2500
STATUS = "flume.syslog.status"
_PRIORITY = re.compile(r"<(\d{1,3})>")
_RFC5424 = re.compile(
    r"<(\d{1,3})>(\d?)\s?(?:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:[+-]\d\d:\d\d|Z)?)|-)\s"
    r"(?:(\w[\w.@-]*)|-)\s(.*)",
    re.ASCII,
)
_RFC3164 = re.compile(
    r"<(\d{1,3})>(\d)?\s?([A-Z][a-z][a-z]\s{1,2}\d{1,2}\s\d\d:\d\d:\d\d)\s(\w[\w.@-]*)\s(.*)",
    re.ASCII,
)
_FIELDS = ("priority", "version", "timestamp", "hostname")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# A time without a year lies between eleven months ago and one month ahead.
_AHEAD, _BEHIND = timedelta(days=31), timedelta(days=334)


def kept_fields(text: str) -> frozenset[str] | None:
    """Return what `keepFields` keeps in the body; None: the whole message."""
    words = text.strip().lower()
    if words in ("true", "all"):
        return None
    return frozenset(name for name in _FIELDS if words not in ("false", "none") and name in words)


def read_message(
    message: bytes, charset: str, kept: frozenset[str] | None, now_ms: int, *, is_cut: bool = False
) -> Event:
    """Return the event of a message without its newline; `is_cut`: it is longer than `eventSize`."""
    priority = _PRIORITY.match(message.decode("latin-1"))
    number = int(priority[1]) if priority else 0
    headers = {"Facility": str(number // 8), "Severity": str(number % 8)}
    if priority is None:
        return Event({**headers, STATUS: "Invalid"}, message)
    if is_cut:
        headers[STATUS] = "Incomplete"
    try:
        text = message.decode(charset)
    except UnicodeDecodeError:
        return Event({**headers, STATUS: "Invalid"}, message)
    match = _RFC5424.fullmatch(text) or _RFC3164.fullmatch(text)
    if match is None:
        return Event(headers, message)
    level, version, stamp, host, body = match.groups()
    headers["priority"] = level
    if version:
        headers["version"] = version
    if stamp and (moment := _moment(stamp, now_ms)) is not None:
        headers["timestamp"] = str(int(moment.timestamp() * 1000))
    if host:
        headers["host"] = host
    if kept is None:
        return Event(headers, message)
    # The order of Flume's: each is put before what there is.
    for name, before in (("hostname", f"{host} "), ("timestamp", f"{stamp} "),
                         ("version", f"{version} " if version else ""),
                         ("priority", f"<{level}>")):  # fmt: skip
        if name in kept:
            body = before + body
    return Event(headers, body.encode(charset) if body else message)


def _moment(stamp: str, now_ms: int) -> datetime | None:
    """Return a message's time, in this machine's zone when it names none; None when there is no such day."""
    try:
        if stamp[0].isdigit():
            moment = datetime.fromisoformat(stamp)
            return moment if moment.tzinfo else moment.astimezone()
        month, day, clock = stamp.split()
        hour, minute, second = map(int, clock.split(":"))
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        moment = datetime(
            now.year, _MONTHS.index(month) + 1, int(day), hour, minute, second
        ).astimezone()  # fmt: skip
        if moment - now > _AHEAD:
            return moment.replace(year=moment.year - 1)
        return moment.replace(year=moment.year + 1) if now - moment > _BEHIND else moment
    except (ValueError, OverflowError):
        # The year 9999 has a last hour that west of Greenwich is in the next year of UTC.
        return None
