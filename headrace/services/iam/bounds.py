"""IAM: policies match by wildcards in bounded time."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

from types import ModuleType

from headrace.core.wildcards import glob_matches


def match_by_wildcards(access_control: ModuleType) -> None:
    """Match actions and resources by wildcards instead of regular expressions."""
    access_control.IAMPolicyStatement._match = staticmethod(glob_matches)
