"""Patches moto's core: it no longer lists every object ever created, and it notes what a request touches."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import os
from datetime import datetime
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import loader
from headrace.moto.storage.changes import CHANGES, package_of


@functools.cache
def patch() -> None:
    """Replace moto's methods, once."""
    import moto.core.errors
    import moto.core.responses
    import moto.core.serialize
    import moto.core.utils
    from moto.core.base_backend import AccountSpecificBackend
    from moto.core.common_models import BaseModel

    model: Any = BaseModel
    # moto's version adds every instance to a list of its class, for moto's dashboard.
    model.__new__ = _make_untracked
    accounts: Any = AccountSpecificBackend
    accounts.__getitem__ = _note_reads(AccountSpecificBackend.__getitem__)
    shared: Any = moto.core.responses
    # moto warns its developers of codes that are not in the service's model, such as those of another service: it is an
    # answer as any other, also where warnings are errors.
    errors: Any = moto.core.errors
    errors.warn = _say_nothing
    # moto's version scans the class's members at every request.
    shared.method_names_from_class = functools.cache(shared.method_names_from_class)
    # moto's version picks 52 characters one by one.
    shared.gen_amzn_requestid_long = new_request_id
    shared.BaseResponse.setup_class = _take_forms_only(shared.BaseResponse.setup_class)
    shared.BaseResponse._get_action = _act_by_protocol(shared.BaseResponse._get_action)
    shared.BaseResponse.call_action = _name_action(shared.BaseResponse.call_action)
    # Services import it from here, later; a queue's attributes ask for 15 names at every message.
    utils: Any = moto.core.utils
    utils.camelcase_to_underscores = functools.lru_cache(4096)(utils.camelcase_to_underscores)
    shared.camelcase_to_underscores = utils.camelcase_to_underscores
    # moto's version asks the disk 1,800 times.
    utils.service_name_from_moto_package_name = _find_service
    serializers: Any = moto.core.serialize.ResponseSerializer
    serializers.get_value = _remember_keys(serializers.get_value)
    serializers._serialize_type_structure = _skip_absent(serializers._serialize_type_structure)


@functools.cache
def _find_service(package: str) -> str:
    """Return the service whose name without hyphens is that of a package of moto's."""
    return {name.replace("-", ""): name for name in loader().list_names()}.get(package, package)


def _say_nothing(*_: Any, **__: Any) -> None:
    pass


def _take_forms_only(setup_class: Any) -> Any:
    """Return setup_class that takes nothing in a text for a parameter, and no parameter from two places.

    moto's version takes every body for a form: `&Action=DeleteQueue&` in a message's text deletes a queue. Of two
    places it takes another one than those who ask for permission: which one AWS takes is not documented.
    """

    @functools.wraps(setup_class)
    def set_up(
        self: Any,
        request: Any,
        full_url: str | None = None,
        headers: Any = None,
        use_raw_body: bool | None = None,
    ) -> None:
        if _is_plain(request):
            _set_up_plainly(self, request, full_url, headers, use_raw_body)
            return
        has_target = "x-amz-target" in request.headers
        if request.query_string and (has_target or request.form):
            unclear = [
                name
                for name in request.args
                if (not name.startswith("X-Amz-") if has_target else name in request.form)
            ]
            if unclear:
                sentence = f"The query has the parameter {unclear[0]}, which belongs into the body."
                raise AwsError("MalformedQueryString", sentence)
        setup_class(self, request, full_url, headers, use_raw_body)
        is_raw = self.use_raw_body if use_raw_body is None else use_raw_body
        is_text = self.body and not (is_raw or request.form or self.parsed_url.query)
        if has_target or is_text:
            self.querystring = self.data = {}
            # They were looked for in the text, too.
            self.access_key = self.get_access_key()
            self.current_account = self.get_current_account()

    return set_up


def _is_plain(request: Any) -> bool:
    """Whether a request has a target and a body that is no form, as those of JSON's services have."""
    environ = request.environ
    return (
        "HTTP_X_AMZ_TARGET" in environ
        and "HTTP_AUTHORIZATION" in environ
        and "HTTP_CONTENT_ENCODING" not in environ
        and not environ["QUERY_STRING"]
        and "form" not in environ.get("CONTENT_TYPE", "")
        and "HTTP_HOST" in environ
    )


def _set_up_plainly(
    self: Any, request: Any, full_url: str | None, headers: Any, use_raw_body: bool | None
) -> None:
    """Do what setup_class does to a plain request: without its search for parameters, a fifth of a request's time.

    A property test holds the two equal (tests/unit/moto/test_core_patches.py).
    """
    from moto.core import responses
    from moto.iam.models import mark_account_as_visited

    shared: Any = responses
    self.is_werkzeug_request = request.from_wsgi_server
    full_url = request.raw_url if full_url is None else full_url
    headers = request.headers if headers is None else headers
    self.normalized_request = request
    self.parsed_url = shared.urlparse(full_url)
    self.form_data = request.form
    self.body = self.raw_body = request.data
    if not (self.use_raw_body if use_raw_body is None else use_raw_body):
        self.body = self.body.decode("utf-8")
    self.uri, self.path = full_url, self.parsed_url.path
    self.raw_path, self.method = request.raw_path, request.method
    self.querystring = self.data = {}
    self.region = self.get_region_from_url(request, full_url)
    self.partition = _partition_of(self.region)
    self.uri_match = {}
    self.headers = request.headers
    self.response_headers = {"server": "amazon.com"}
    if not self.is_werkzeug_request:
        self.response_headers["date"] = _date_of(shared.utcnow().replace(microsecond=0))
    if self.automated_parameter_parsing and self._get_action():
        self.parse_parameters(request)
    self.access_key = self.get_access_key()
    self.current_account = self.get_current_account()
    mark_account_as_visited(
        account_id=self.current_account,
        access_key=self.access_key,
        service=self.service_name,
        region=self.region,
    )


@functools.lru_cache(256)
def _partition_of(region: str) -> str:
    from moto.utilities.utils import get_partition

    return get_partition(region)


@functools.lru_cache(4)
def _date_of(now: datetime) -> str:
    """Return the Date header of a second."""
    from werkzeug.http import http_date

    return http_date(now)


def _act_by_protocol(get_action: Any) -> Any:
    """Return _get_action that reads no Action where a request's path or its target names the operation."""
    from moto.core.utils import get_service_model

    @functools.wraps(get_action)
    def act(self: Any) -> Any:
        if "Action" not in self.querystring or self.service_name == "s3":
            return get_action(self)
        if get_service_model(self.boto3_service_name).protocol.startswith("rest-"):
            return self._get_action_from_method_and_request_uri(self.normalized_request)
        target = self.headers.get("x-amz-target")
        return target.rpartition(".")[2] if target else get_action(self)

    return act


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


def new_request_id(headers: dict[str, Any] | None = None) -> str:
    """Return a new request id of 52 characters, and add its header."""
    request_id = os.urandom(52).translate(_ID_OF_BYTES).decode()
    if isinstance(headers, dict):
        headers["x-amzn-requestid"] = request_id
    return request_id


# Each byte to one of AWS's 32 characters, all as often.
_ID_OF_BYTES = bytes(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[byte % 32] for byte in range(256))


class _Keys:
    """The names under which objects of one class may hold a member of an answer, in moto's order of preference."""

    def __init__(self, names: list[str], kind: type) -> None:
        self.names = names
        # moto takes a dot for a path into the object.
        self.is_plain = kind is dict and not any("." in name for name in names)


_MISSING: Any = object()


def _remember_keys(get_value: Any) -> Any:
    """Return get_value with the names that it tries for a member made once for each class, not for every value."""
    from moto.core.utils import get_value as value_of

    @functools.wraps(get_value)
    def get(self: Any, value: Any, key: str, shape: Any) -> Any:
        if shape is None or not _picks_by_names(self) or hasattr(type(value), "__getattr__"):
            return get_value(self, value, key, shape)
        keys = _keys_of(self, value, key, shape)
        for name in keys.names:
            held = value.get(name, _MISSING) if keys.is_plain else value_of(value, name, _MISSING)
            if held is not _MISSING:
                return held
        return None

    return get


def _picks_by_names(serializer: Any) -> bool:
    """Whether a value depends on nothing but its names: a few services, none of many requests, transform values."""
    picker = serializer._value_picker
    return type(picker) is _usual_picker() and not picker.response_transformers


@functools.cache
def _usual_picker() -> type:
    from moto.core.serialize import XFormedAttributePicker

    return XFormedAttributePicker


def _keys_of(serializer: Any, value: Any, key: str, shape: Any) -> _Keys:
    from moto.core.serialize import AttributePickerContext

    kind = type(value)
    known = shape.__dict__.setdefault("headrace_keys", {})
    # A member has other names before its structure tells it its parent.
    case = (kind, key, "parent" in shape.__dict__)
    keys = known.get(case)
    if keys is None:
        model = serializer.operation_model
        key_context = AttributePickerContext(value, key, shape, model, model.service_model)
        names = list(serializer._value_picker.get_possible_keys(key_context))
        keys = known[case] = _Keys(names, kind)
    return keys


def _skip_absent(write_structure: Any) -> Any:
    """Return the writer of structures, which does not look for members that no key of a dictionary can stand for.

    Most values of DynamoDB's items have one of ten members.
    """

    @functools.wraps(write_structure)
    def write(self: Any, serialized: Any, value: Any, shape: Any, key: str) -> None:
        is_sparse = type(value) is dict and 2 * len(value) <= len(shape.members)
        if not is_sparse or not _picks_by_names(self):
            write_structure(self, serialized, value, shape, key)
            return
        members = shape.__dict__.get("headrace_members")
        if members is None:
            write_structure(self, serialized, value, shape, key)
            shape.__dict__["headrace_members"] = _members_by_name(self, shape)
            return
        present = {member for name in value for member in members.get(name, ())}
        written = self.MAP_TYPE() if key else serialized
        for member, member_shape in shape.members.items():
            if member in present:
                self._serialize_structure_member(written, value, member_shape, member)
        if key:
            self._default_serialize(serialized, written, shape, key)

    return write


def _members_by_name(serializer: Any, shape: Any) -> dict[str, list[str]]:
    """Return the members of a structure that a name of a dictionary may stand for, or start the path of."""
    members: dict[str, list[str]] = {}
    for member, member_shape in shape.members.items():
        for name in _keys_of(serializer, {}, member, member_shape).names:
            for start in {name, name.partition(".")[0]}:
                members.setdefault(start, []).append(member)
    return members


def _make_untracked(kind: Any, *_: Any, **__: Any) -> Any:
    return object.__new__(kind)


def _note_reads(getitem: Any) -> Any:
    @functools.wraps(getitem)
    def get_and_note(self: Any, region: str) -> Any:
        is_new = dict.get(self, "aws" if region == "global" else region) is None
        if is_new and CHANGES.deferred:
            # The service's stored state is loaded now: this is its first use.
            CHANGES.load_deferred(package_of(self.backend))
            is_new = dict.get(self, "aws" if region == "global" else region) is None
        backend = getitem(self, region)
        if is_new:
            CHANGES.made(package_of(self.backend))
        elif CHANGES.is_watching:
            CHANGES.service(package_of(self.backend))
        return backend

    return get_and_note


def check_names_once(xmltodict: Any) -> None:
    """Check the name of an element of XML once, character by character: answers repeat few."""
    check = getattr(xmltodict, "_validate_name", None)
    if check is not None:
        xmltodict._validate_name = functools.lru_cache(4096)(check)
