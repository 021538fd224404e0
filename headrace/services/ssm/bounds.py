"""SSM: filters match in bounded time, documents are read within bounds."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

from types import ModuleType

from headrace.moto.bounds.yaml_documents import patch_yaml
from headrace.services.ssm.values import patch_parameters


def apply_bounds(models: ModuleType) -> None:
    """Match filters in bounded time, and read documents within bounds."""
    patch_parameters(models)
    patch_yaml(models)
