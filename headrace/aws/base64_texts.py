"""Judges and measures the base64 texts of a request that are stored as they came, without decoding them one by one."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

# The characters that may stand before padding.
_BEFORE_ONE, _BEFORE_TWO = "AEIMQUYcgkosw048", "AQgw"
_LOOSE_END = re.compile(f"[^{_BEFORE_TWO}]==,|[^{_BEFORE_ONE}=]=,").search
# Whether one text of whole groups of four is base64: padding only at the end, no bits before it that count for nothing.
is_base64_text = re.compile(f"[A-Za-z0-9+/]*(?:[{_BEFORE_ONE}]=|[{_BEFORE_TWO}]==)?").fullmatch
_BASE64 = (string.ascii_letters + string.digits + "+/").encode()


def is_base64(data: Sequence[str], lengths: set[int]) -> bool:
    """Whether texts of whole groups of four, of these lengths, are base64; see `padding_of`."""
    return padding_of(data, lengths) is not None


def padding_of(data: Sequence[str], lengths: set[int]) -> int | None:
    """Return how many `=` texts of whole groups of four, of these lengths, have in all; None when they are not base64.

    They are judged as SDKs write base64, all at once: no other characters, no `=` but one or two at an end, and no bits
    before them that count for nothing, since the stored text is sent to readers as it is and their decoders may be
    strict. Texts that fail are checked one by one by the action.

    Decoded, the texts are three quarters of their lengths less this number.
    """
    joined = "".join(data)
    if not joined.isascii():
        return None
    left = joined.encode("ascii").translate(None, _BASE64)
    if not left:
        return 0
    if left.strip(b"="):
        return None
    return len(left) if _is_padded_well(data, lengths, joined, len(left)) else None


def _is_padded_well(data: Sequence[str], lengths: set[int], joined: str, padding: int) -> bool:
    """Whether all `padding` characters `=` are where they may be."""
    if len(lengths) == 1 and padding % len(data) == 0:
        # Of one length, so most likely with the same padding: their ends are each so many characters apart.
        (length,) = lengths
        last, before = joined[length - 1 :: length], joined[length - 2 :: length]
        if padding == len(data) and not last.strip("="):
            return not before.strip(_BEFORE_ONE)
        if padding == 2 * len(data) and not last.strip("=") and not before.strip("="):
            return not joined[length - 3 :: length].strip(_BEFORE_TWO)
    ends = ",".join([text[-3:] for text in data]) + ","
    return padding == ends.count("=,") + ends.count("==,") and not _LOOSE_END(ends)
