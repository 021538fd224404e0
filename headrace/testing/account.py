"""A cloud seen from one account: a test that has its own account works with this view."""

from __future__ import annotations

from typing import Any

from headrace.testing.access import CloudAccess


class AccountView(CloudAccess):
    """A view of `cloud` whose clients use one account."""

    def __init__(self, cloud: CloudAccess, account: str) -> None:
        super().__init__(cloud.endpoint_url, account=account, region=cloud.region)
        self.product = cloud.product
        self.cloud = cloud

    def page(self, path: str) -> Any:
        """See `CloudAccess.page`."""
        return self.cloud.page(path)

    @property
    def can_advance(self) -> bool:
        """See `CloudAccess.can_advance`."""
        return self.cloud.can_advance

    @property
    def runs_folders(self) -> bool:
        """See `CloudAccess.runs_folders`."""
        return self.cloud.runs_folders

    def advance(
        self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> None:
        """See `CloudAccess.advance`."""
        self.cloud.advance(seconds=seconds, minutes=minutes, hours=hours, days=days)
