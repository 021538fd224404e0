"""Where moto's services are not AWS's, or not made to run for long: methods of theirs that are replaced, once."""

from __future__ import annotations

import functools
import importlib
import sys

# Modules of moto that take long to import and are not always wanted, and who mends them then.
_LATER = {"moto.glue.models": "glue"}


@functools.cache
def mend_all() -> None:
    """Replace what is to be replaced. Imports most of the services; the caller holds `IMPORTING`."""
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
    )

    for service in (
        core, iam, dynamodb, dynamodb_streams, sqs, sns, events, logs, cloudwatch, ssm,
    ):  # fmt: skip
        service.mend()


def mend_imported() -> None:
    """Replace what is to be replaced in modules that have been imported since; quick when there is nothing."""
    for module, name in _LATER.items():
        if module in sys.modules:
            importlib.import_module(f"headrace.fallback.services.{name}").mend()
