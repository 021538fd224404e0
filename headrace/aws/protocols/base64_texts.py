"""Checks the base64 texts of a request, many at once, and computes their decoded size without decoding them."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

# The characters that may stand before padding.
_BEFORE_ONE, _BEFORE_TWO = "AEIMQUYcgkosw048", "AQgw"
_LOOSE_END = re.compile(f"[^{_BEFORE_TWO}]==,|[^{_BEFORE_ONE}=]=,").search
# Whether one text of whole groups of four is canonical base64: padding only at the end, unused bits zero.
is_base64_text = re.compile(f"[A-Za-z0-9+/]*(?:[{_BEFORE_ONE}]=|[{_BEFORE_TWO}]==)?").fullmatch
_BASE64 = (string.ascii_letters + string.digits + "+/").encode()


def is_base64(data: Sequence[str], lengths: set[int]) -> bool:
    """Whether joined texts of these lengths, all multiples of four, are base64; see `count_padding`."""
    return count_padding(data, lengths) is not None


def count_padding(data: Sequence[str], lengths: set[int]) -> int | None:
    """Return the number of `=` in joined texts of these lengths, all multiples of four; None when they are not base64.

    The texts must be as SDKs write base64: no other characters, `=` only once or twice at an end, and unused bits zero,
    since readers get the stored text unchanged and their decoders may be strict. The action checks texts that fail one
    by one.

    The decoded size is three quarters of the lengths, less this number.
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
    """Whether all `padding` characters `=` are at the ends of texts."""
    if len(lengths) == 1 and padding % len(data) == 0:
        # The texts have one length, so most likely the same padding: their ends are at equal distances.
        (length,) = lengths
        last, before = joined[length - 1 :: length], joined[length - 2 :: length]
        if padding == len(data) and not last.strip("="):
            return not before.strip(_BEFORE_ONE)
        if padding == 2 * len(data) and not last.strip("=") and not before.strip("="):
            return not joined[length - 3 :: length].strip(_BEFORE_TWO)
    ends = ",".join([text[-3:] for text in data]) + ","
    return padding == ends.count("=,") + ends.count("==,") and not _LOOSE_END(ends)
