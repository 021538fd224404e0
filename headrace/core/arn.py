"""Amazon Resource Names, `arn:partition:service:region:account:resource`, and the account ids in them."""

from __future__ import annotations

from dataclasses import dataclass


class InvalidArn(ValueError):
    """The text is not an ARN."""


def is_account_id(text: str) -> bool:
    """Whether a text is the id of an account: twelve of the digits 0 to 9."""
    return len(text) == 12 and text.isascii() and text.isdigit()


@dataclass(frozen=True, slots=True)
class Arn:
    """The six parts of an ARN; `resource` keeps its own colons and slashes."""

    partition: str
    service: str
    region: str
    account: str
    resource: str

    @staticmethod
    def parse(text: str) -> Arn:
        """Return the parts of `text`. Raises InvalidArn."""
        parts = text.split(":", 5)
        if len(parts) != 6 or parts[0] != "arn" or not parts[1] or not parts[2] or not parts[5]:
            raise InvalidArn(text)
        return Arn(*parts[1:])

    @property
    def name(self) -> str:
        """The resource's last part: `stream/flights` gives `flights`, `function:f` gives `f`."""
        return self.resource.rsplit("/", 1)[-1].rsplit(":", 1)[-1]

    def __str__(self) -> str:
        return f"arn:{self.partition}:{self.service}:{self.region}:{self.account}:{self.resource}"


def make_arn(service: str, region: str, account: str, resource: str) -> str:
    """Return an ARN in the partition `aws`."""
    return f"arn:aws:{service}:{region}:{account}:{resource}"
