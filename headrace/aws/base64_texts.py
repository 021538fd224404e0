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
    """Whether texts of whole groups of four, of these lengths, are base64 as SDKs write it, checked over all at once.

    No other characters, no `=` but one or two at an end, and no bits before them that count for nothing: the stored
    text is sent to readers as it is, and their decoders may be strict. Texts that fail are checked one by one by the
    action.
    """
    joined = "".join(data)
    if not joined.isascii():
        return False
    left = joined.encode("ascii").translate(None, _BASE64)
    if not left:
        return True
    if left.strip(b"="):
        return False
    if len(lengths) == 1 and len(left) % len(data) == 0:
        # Of one length, so most likely with the same padding: their ends are each so many characters apart.
        (length,) = lengths
        last, before = joined[length - 1 :: length], joined[length - 2 :: length]
        if len(left) == len(data) and not last.strip("="):
            return not before.strip(_BEFORE_ONE)
        if len(left) == 2 * len(data) and not last.strip("=") and not before.strip("="):
            return not joined[length - 3 :: length].strip(_BEFORE_TWO)
    ends = ",".join([text[-3:] for text in data]) + ","
    return len(left) == ends.count("=,") + ends.count("==,") and not _LOOSE_END(ends)


def decoded_bytes(data: Sequence[str]) -> int:
    """Return what texts of whole groups of four, of base64 as `is_base64` judges it, are when decoded, in all."""
    ends = "".join([text[-2:] for text in data])
    return sum(map(len, data)) * 3 // 4 - ends.count("=")
