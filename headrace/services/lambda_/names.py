"""How callers name functions: a name, a partial ARN or a whole one, each with or without a qualifier."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headrace.core.arn import make_arn
from headrace.services.lambda_.errors import invalid_parameter, validation

LATEST = "$LATEST"

_REFERENCE = re.compile(
    r"^(?:arn:aws[a-zA-Z-]*:lambda:(?P<region>[a-z0-9-]+):(?P<arn_account>\d{12}):function:"
    r"|(?P<account>\d{12}):function:|function:)?"
    r"(?P<name>[a-zA-Z0-9-_.]{1,64})(?::(?P<qualifier>\$LATEST|[a-zA-Z0-9-_$]{1,128}))?$"
)


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A function in an account and region, and the version or alias that the caller named, if any.

    `key` is the function's in the state database.
    """

    account: str
    region: str
    name: str
    qualifier: str | None = None
    key: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"{self.account}/{self.region}/{self.name}")

    @property
    def arn(self) -> str:
        """The function's ARN, without a qualifier."""
        return make_arn("lambda", self.region, self.account, f"function:{self.name}")

    @property
    def qualified_arn(self) -> str:
        """The ARN with the qualifier, when there is one."""
        return f"{self.arn}:{self.qualifier}" if self.qualifier else self.arn

    @property
    def bare(self) -> FunctionRef:
        """The function itself, whatever the qualifier."""
        return FunctionRef(self.account, self.region, self.name)

    def with_qualifier(self, qualifier: str | None) -> FunctionRef:
        """Return the function with another version or alias, or none."""
        return FunctionRef(self.account, self.region, self.name, qualifier)


def parse_function(
    text: str, *, account: str, region: str, qualifier: str | None = None
) -> FunctionRef:
    """Return what `text` names. Raises AwsError for a malformed name or contradicting qualifiers."""
    match = _REFERENCE.match(text)
    if match is None:
        raise validation(
            f"Value '{text}' at 'functionName' failed to satisfy constraint: Member must satisfy "
            "regular expression pattern: (arn:(aws[a-zA-Z-]*)?:lambda:)?([a-z]{2}((-gov)|(-iso(b?)))?"
            r"-[a-z]+-\d{1}:)?(\d{12}:)?(function:)?([a-zA-Z0-9-_]+)(:(\$LATEST|[a-zA-Z0-9-_]+))?"
        )
    own = match["qualifier"]
    if own and qualifier and own != qualifier:
        raise invalid_parameter(
            "The derived qualifier from the function name does not match the specified qualifier."
        )
    return FunctionRef(
        account=match["arn_account"] or match["account"] or account,
        region=match["region"] or region,
        name=match["name"],
        qualifier=qualifier or own,
    )


def layer_arn(region: str, account: str, name: str) -> str:
    """Return a layer's ARN, without a version."""
    return make_arn("lambda", region, account, f"layer:{name}")


def lambda_time(now_ms: int) -> str:
    """Return a time as Lambda's control plane writes it: `2026-01-31T12:00:00.000+0000`."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now_ms % 1000:03d}+0000"
