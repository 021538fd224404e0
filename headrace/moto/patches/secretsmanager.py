"""Secrets Manager: errors in AWS's form."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
import json
from typing import Any


def answer_as_aws(module: Any) -> None:
    """Answer every error of the client with status 400 and its sentence as `Message` (recorded of missing secrets)."""
    error: Any = module.SecretsManagerClientError
    init = error.__init__

    @functools.wraps(init)
    def make(self: Any, error_type: str, message: str, *args: Any, **named: Any) -> None:
        init(self, error_type, message, *args, **named)
        self.description = json.dumps({"__type": error_type, "Message": message})

    error.__init__ = make
    # moto's errors set 404.
    error.code = property(lambda _: 400, lambda *_: None)
