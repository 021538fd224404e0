"""CloudTrail: nothing is recorded, so that no trail says that it delivered something."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import functools
from typing import Any


def claim_no_delivery(module: Any) -> None:
    """Let `moto.cloudtrail.models` answer GetTrailStatus as AWS does of a trail that has delivered nothing yet."""
    describe = module.TrailStatus.description

    @functools.wraps(describe)
    def description(self: Any) -> dict[str, Any]:
        status = {**describe(self), "LatestDeliveryAttemptTime": ""}
        status.pop("LatestDeliveryTime", None)
        return status

    module.TrailStatus.description = description
