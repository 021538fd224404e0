"""Parses the names of functions: a name, a partial ARN or a whole ARN, each with or without a qualifier."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headrace.aws.protocols.validate import validate
from headrace.core.arn import make_arn
from headrace.services.lambda_.errors import WORDING, invalid_parameter, not_found

LATEST = "$LATEST"

_REFERENCE = re.compile(
    r"(?:arn:(?:aws[a-zA-Z-]*)?:lambda:)?"
    r"(?:(?P<region>(?:eusc-)?[a-z]{2}(?:-gov|-iso[a-z]?)?-[a-z]+-\d):)?"
    r"(?:(?P<account>\d{12}):)?(?:function:)?"
    r"(?P<name>[a-zA-Z0-9-_.]{1,140})(?::(?P<qualifier>\$LATEST(?:\.PUBLISHED)?|[a-zA-Z0-9-_]{1,128}))?"
)
_QUALIFIER = re.compile(r"[a-zA-Z0-9$_.-]{1,128}")
_LONGEST_REFERENCE = 170
LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A function in an account and region, and the version or alias that the caller named, if any.

    Attributes:
        key: the function's in the state database.
        arn: the function's ARN, without a qualifier.
        qualified_arn: the ARN with the qualifier, when there is one.
    """

    account: str
    region: str
    name: str
    qualifier: str | None = None
    key: str = field(init=False, repr=False, compare=False)
    arn: str = field(init=False, repr=False, compare=False)
    qualified_arn: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"{self.account}/{self.region}/{self.name}")
        arn = make_arn("lambda", self.region, self.account, f"function:{self.name}")
        object.__setattr__(self, "arn", arn)
        qualified = f"{arn}:{self.qualifier}" if self.qualifier else arn
        object.__setattr__(self, "qualified_arn", qualified)

    @property
    def bare(self) -> FunctionRef:
        """The same function without a qualifier."""
        return FunctionRef(self.account, self.region, self.name)

    def replace_qualifier(self, qualifier: str | None) -> FunctionRef:
        """Return the same function with another qualifier, or without one."""
        return FunctionRef(self.account, self.region, self.name, qualifier)


@functools.lru_cache(maxsize=1000)
def parse_function(
    text: str, *, account: str, region: str, qualifier: str | None = None
) -> FunctionRef:
    """Return the function that `text` names, which is a name, a partial ARN or an ARN.

    Raises AwsError for a malformed name or contradicting qualifiers.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None or len(text) > _LONGEST_REFERENCE or not _is_qualifier(qualifier):
        _refuse(text, qualifier)
    own = match and match["qualifier"]
    if match is None or (own and qualifier and own != qualifier):
        raise invalid_parameter(
            "The derived qualifier from the function name does not match the specified qualifier."
        )
    return FunctionRef(
        account=match["account"] or account,
        region=match["region"] or region,
        name=match["name"],
        qualifier=qualifier or own,
    )


def _is_qualifier(qualifier: str | None) -> bool:
    return not qualifier or _QUALIFIER.fullmatch(qualifier) is not None


def _refuse(text: str, qualifier: str | None) -> None:
    """Check a name and a qualifier where the API model's validator has not; use its message. Raises AwsError."""
    params = {"FunctionName": text, **({"Qualifier": qualifier} if qualifier else {})}
    validate("lambda", "Invoke", params, wording=WORDING)


def check_reachable(ref: FunctionRef, region: str) -> None:
    """Refuse a function in another region than the request's. Raises AwsError."""
    if ref.region != region:
        raise not_found(
            f"Functions from '{ref.region}' are not reachable in this region ('{region}')"
        )


def build_layer_arn(region: str, account: str, name: str) -> str:
    """Return a layer's ARN, without a version."""
    return make_arn("lambda", region, account, f"layer:{name}")


def format_lambda_time(now_ms: int) -> str:
    """Return a time in the format of Lambda's control plane: `2026-01-31T12:00:00.000+0000`."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now_ms % 1000:03d}+0000"
