"""Patches moto's services where they differ from AWS or were not made to run for long."""

from __future__ import annotations

import functools
import importlib
import sys

# Modules of moto that take long to import and are not always used, and the module here that patches each.
_LATER = {"moto.glue.models": "glue"}


@functools.cache
def patch_all() -> None:
    """Apply every patch. Imports most of the services; the caller holds `IMPORTING`."""
    from headrace.fallback.kept import pickles
    from headrace.fallback.services import (
        cloudwatch,
        core,
        dynamodb,
        dynamodb_streams,
        events,
        iam,
        logs,
        sns,
        sqs,
        ssm,
        sts,
    )

    for service in (
        core, iam, dynamodb, dynamodb_streams, sqs, sns, events, logs, cloudwatch, ssm,
        sts,
    ):  # fmt: skip
        service.patch()
    pickles.after_imports(patch_imported)


def patch_imported() -> None:
    """Patch modules that were imported since; quick when there are none."""
    from headrace.fallback.services import gaps

    gaps.patch()
    for module, name in _LATER.items():
        if module in sys.modules:
            importlib.import_module(f"headrace.fallback.services.{name}").patch()
