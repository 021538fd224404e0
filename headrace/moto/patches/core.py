"""Patches moto's core: it no longer lists every object ever created, and it notes what a request touches."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import base64
import functools
import os
from typing import Any

from headrace.moto.storage import pickles
from headrace.moto.storage.changes import CHANGES


@functools.cache
def patch() -> None:
    """Replace moto's methods, once."""
    import moto.core.responses
    from moto.core.base_backend import AccountSpecificBackend
    from moto.core.common_models import BaseModel

    model: Any = BaseModel
    # moto's version adds every instance to a list of its class, for moto's dashboard.
    model.__new__ = _make_untracked
    accounts: Any = AccountSpecificBackend
    accounts.__getitem__ = _note_reads(AccountSpecificBackend.__getitem__)
    shared: Any = moto.core.responses
    # moto's version scans the class's members at every request.
    shared.method_names_from_class = functools.cache(shared.method_names_from_class)
    # moto's version picks 52 characters one by one.
    shared.gen_amzn_requestid_long = _request_id
    shared.BaseResponse.call_action = _name_action(shared.BaseResponse.call_action)
    shared.camelcase_to_underscores = functools.lru_cache(4096)(shared.camelcase_to_underscores)


def _name_action(call_action: Any) -> Any:
    """Return call_action with AWS's name of an action that moto lacks, in place of moto's sentences about it."""

    @functools.wraps(call_action)
    def call(self: Any) -> Any:
        try:
            return call_action(self)
        except NotImplementedError as error:
            if "implemented" not in str(error):
                # headrace's own reason.
                raise
            raise NotImplementedError(f"{self.service_name}:{self._get_action()}") from error

    return call


def _request_id(headers: dict[str, Any] | None = None) -> str:
    made = base64.b32encode(os.urandom(33))[:52].decode()
    if isinstance(headers, dict):
        headers["x-amzn-requestid"] = made
    return made


def _make_untracked(kind: Any, *_: Any, **__: Any) -> Any:
    return object.__new__(kind)


def _note_reads(getitem: Any) -> Any:
    @functools.wraps(getitem)
    def get_and_note(self: Any, region: str) -> Any:
        is_new = dict.get(self, "aws" if region == "global" else region) is None
        if is_new and CHANGES.deferred:
            # The service's stored state is loaded now: this is its first use.
            CHANGES.load_deferred(pickles.package_of(self.backend))
            is_new = dict.get(self, "aws" if region == "global" else region) is None
        backend = getitem(self, region)
        if is_new:
            CHANGES.made(pickles.package_of(self.backend))
        elif CHANGES.is_watching:
            CHANGES.service(pickles.package_of(self.backend))
        return backend

    return get_and_note
