"""The input members that moto takes and drops: the fidelity tables of moto's services, *ignored* throughout.

A member inside another one stands with its path, through lists too: `Rules.Action`. `python -m scripts.dropped_members`
writes `dropped_members.json`; it says how it knows. `tried_members.json` has what makes no difference in moto's memory
(`python -m tests.support.made_up` writes it).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path

from headrace.core.ports import FidelityLevel

FILE = Path(__file__).with_suffix(".json")
TRIED_FILE = FILE.with_name("tried_members.json")
# What the examples of tests/api/cloudformation/declared give, and no read shows.
_SEEN: dict[str, dict[str, list[str]]] = {
    # moto has no DescribeSubscribersForNotification, and sends nothing.
    "budgets": {"CreateBudget": ["NotificationsWithSubscribers.Subscribers"]},
    "cloudfront": {
        "CreateDistributionWithTags": [
            "DistributionConfigWithTags.DistributionConfig.Origins.Items.OriginAccessControlId"
        ]
    },
    "dms": {"CreateReplicationSubnetGroup": ["SubnetIds"]},
}


@functools.cache
def dropped_members() -> Mapping[str, Mapping[str, Mapping[str, FidelityLevel]]]:
    """Return the dropped members' paths by service and operation; the level of each is *ignored*."""
    levels: dict[str, dict[str, dict[str, FidelityLevel]]] = {}
    for services in (json.loads(FILE.read_text()), json.loads(TRIED_FILE.read_text()), _SEEN):
        for service, operations in services.items():
            table = levels.setdefault(service, {})
            for name, members in operations.items():
                table.setdefault(name, {}).update(dict.fromkeys(members, "ignored"))  # pyrefly: ignore[no-matching-overload]
    return levels
