"""Secrets Manager: errors in AWS's form, rotation by functions of this cloud, and which version is the current one."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import json
import logging
import re
import uuid
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import FunctionNotFound, FunctionThrottled
from headrace.moto.current_cloud import CURRENT, FunctionCalls
from headrace.moto.memory import state_of_key
from headrace.moto.patching import check_first
from headrace.moto.principals import exists_for
from headrace.moto.storage.changes import MOTO_LOCK
from headrace.permissions.policies.document import check_resource_policy
from headrace.permissions.policies.grammar import PolicyError

log = logging.getLogger(__name__)

_SERVICE = "secretsmanager.amazonaws.com"
_STEPS = ("createSecret", "setSecret", "testSecret", "finishSecret")
_CURRENT, _PENDING, _PREVIOUS = "AWSCURRENT", "AWSPENDING", "AWSPREVIOUS"
# Of a secret and of a version: the day of the last read, in seconds.
_READ = "last_accessed_date"
_DAY_S = 24 * 60 * 60
# The end of a whole ARN.
_WHOLE = re.compile(r"-[A-Za-z0-9]{6}$")


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


# Documented, and LocalStack's tests have the sentence of AWS.
_NAME = re.compile(r"[A-Za-z0-9/_+=.@!-]+")
_INVALID_NAME = (
    "Invalid name. Must be a valid name containing alphanumeric characters, or any of the following:"
    " -/_+=.@!"
)


def check_names(module: Any) -> None:
    """Refuse a name that no secret has, and list a secret's versions as AWS does (recorded)."""
    response = module.SecretsManagerResponse
    response.list_secret_version_ids = _list_versions
    response.validate_resource_policy = _validate_policy
    for name in (
        "create_secret", "delete_secret", "describe_secret", "get_resource_policy", "get_secret_value",
        "list_secret_version_ids", "put_resource_policy", "put_secret_value", "restore_secret", "rotate_secret",
        "tag_resource", "untag_resource", "update_secret", "update_secret_version_stage", "validate_resource_policy",
    ):  # fmt: skip
        setattr(response, name, check_first(_check_name, getattr(response, name)))
    for name in ("create_secret", "put_secret_value", "rotate_secret", "update_secret"):
        setattr(response, name, check_first(_check_token, getattr(response, name)))
    for name in ("create_secret", "update_secret"):
        setattr(response, name, check_first(_check_key, getattr(response, name)))


# Documented for CreateSecret, PutSecretValue and UpdateSecret; that it is the answer for a missing key is assumed.
_NOT_ENCRYPTED = (
    "Secrets Manager can't encrypt the protected secret text using the provided KMS key. Check that the KMS key is"
    " available, enabled, and not in an invalid state."
)


def _check_key(response: Any) -> None:
    """Refuse a key that is not there, or cannot be used; no check is made while state is being loaded."""
    key_id = str(response._get_param("KmsKeyId") or "")
    if not key_id or "alias/aws/" in key_id or CURRENT.control is None:
        return
    _, state = state_of_key(key_id, response.current_account, response.region)
    if state != "Enabled":
        raise AwsError("EncryptionFailure", _NOT_ENCRYPTED)


def _check_token(response: Any) -> None:
    """Refuse a request without a token, which AWS's SDKs add by themselves (recorded)."""
    from moto.secretsmanager.exceptions import InvalidParameterException, InvalidRequestException

    if not response._get_param("ClientRequestToken"):
        rotates = response._get_action() == "RotateSecret"
        refusal = InvalidParameterException if rotates else InvalidRequestException
        raise refusal(
            "You must provide a ClientRequestToken value. We recommend a UUID-type value."
        )


def end_windows(module: Any) -> None:
    """Let go of secrets when their recovery window has ended, before a request finds them: moto never does."""
    response = module.SecretsManagerResponse
    find = response.backend.fget

    def backend_of(self: Any) -> Any:
        found = find(self)
        now_s = CURRENT.clock.now_ms() / 1000
        with MOTO_LOCK:
            for secret in list(found.secrets.values()):
                if secret.is_deleted() and secret.deleted_date <= now_s:
                    found.secrets.pop(secret.arn)
        return found

    response.backend = property(backend_of)


def _validate_policy(response: Any) -> str:
    """Answer ValidateResourcePolicy with what PutResourcePolicy refuses, all of it as wrong syntax (assumed)."""
    from moto.secretsmanager.exceptions import SecretNotFoundException

    secret_id = response._get_param("SecretId")
    if secret_id and response.backend.secrets.get(secret_id) is None:
        raise SecretNotFoundException()
    try:
        exists = exists_for(response.current_account)
        check_resource_policy("secretsmanager", response._get_param("ResourcePolicy"), exists)
    except PolicyError as error:
        failed = [{"CheckName": "Policy syntax validation", "ErrorMessage": error.message}]
        return json.dumps({"PolicyValidationPassed": False, "ValidationErrors": failed})
    return json.dumps({"PolicyValidationPassed": True, "ValidationErrors": []})


def _check_name(response: Any) -> None:
    name = response._get_param("SecretId") or response._get_param("Name")
    if name is None and response._get_action() == "ValidateResourcePolicy":
        return  # a policy for no secret yet
    name = str(name or "")
    if not name.startswith("arn:") and not _NAME.fullmatch(name):
        raise AwsError("ValidationException", _INVALID_NAME)


def _list_versions(response: Any) -> str:
    from moto.secretsmanager.exceptions import SecretNotFoundException

    secret = response.backend.secrets.get(response._get_param("SecretId"))
    if secret is None:
        raise SecretNotFoundException()
    own = [value for name, value in secret.to_dict().items() if name.startswith("Kms") and value]
    versions = [
        {
            "CreatedDate": version["createdate"],
            "KmsKeyIds": own or ["DefaultEncryptionKey"],
            **({"LastAccessedDate": version[_READ]} if _READ in version else {}),
            "VersionId": name,
            **(
                {"VersionStages": sorted(version["version_stages"])}
                if version["version_stages"]
                else {}
            ),
        }
        for name, version in secret.versions.items()
        if version["version_stages"] or response._get_param("IncludeDeprecated")
    ]
    return json.dumps({"ARN": secret.arn, "Name": secret.name, "Versions": versions})


def read_whole_arns(module: Any) -> None:
    """Take an ARN that ends with a hyphen and six characters as a whole one, also where a name ends so (recorded)."""
    name_of = module.get_secret_name_from_partial_arn

    def name_of_part(identifier: str) -> str:
        is_whole = identifier.startswith("arn:") and _WHOLE.search(identifier)
        return identifier if is_whole else name_of(identifier)

    module.get_secret_name_from_partial_arn = name_of_part


def show_labels(module: Any) -> None:
    """Show the versions that have labels, in order, and move labels as AWS does (recorded)."""
    secret, backend = module.FakeSecret, module.SecretsManagerBackend
    reset, create = secret.reset_default_version, backend.create_secret
    shorten = secret.to_short_dict

    def labels_of(self: Any) -> dict[str, list[str]]:
        return {
            name: sorted(version["version_stages"])
            for name, version in self.versions.items()
            if version["version_stages"]
        }

    @functools.wraps(reset)
    def reset_default_version(self: Any, secret_version: Any, version_id: str) -> None:
        before = {name: list(one["version_stages"]) for name, one in self.versions.items()}
        reset(self, secret_version, version_id)
        moved = {_CURRENT, _PENDING, _PREVIOUS, *secret_version["version_stages"]}
        for name in before.keys() - {version_id}:
            # moto takes the labels of one's own from the version that was current; they stay until they are moved.
            stages = self.versions[name]["version_stages"]
            stages += [
                label for label in before[name] if label not in moved and label not in stages
            ]

    @functools.wraps(shorten)
    def to_short_dict(self: Any, *args: Any, **named: Any) -> str:
        answer = json.loads(shorten(self, *args, **named))
        if "VersionStages" in answer:
            answer["VersionStages"].sort()
        return json.dumps(answer)

    @functools.wraps(create)
    def create_secret(self: Any, name: str, *args: Any, **named: Any) -> Any:
        before = self.secrets.get(name)
        if before is not None and before.is_deleted():
            from moto.secretsmanager.exceptions import InvalidRequestException

            raise InvalidRequestException(
                "You can't create this secret because a secret with this name is already scheduled for deletion."
            )
        return create(self, name, *args, **named)

    secret._form_version_ids_to_stages, secret.to_short_dict = labels_of, to_short_dict
    secret.reset_default_version, backend.create_secret = reset_default_version, create_secret


def rotate_by_functions(module: Any) -> None:
    """Run the steps of a secret's rotation function in this cloud before RotateSecret answers.

    AWS answers first. That a step which fails ends the rotation, and leaves the version pending, is documented
    ("How rotation works"); the refusals are AWS's (reported by users). moto looks for the function among its own, and
    makes a version without a value the current one.
    """
    backend = module.SecretsManagerBackend
    rotate = backend.rotate_secret

    @functools.wraps(rotate)
    def rotate_secret(
        self: Any,
        secret_id: str,
        client_request_token: str | None = None,
        rotation_lambda_arn: str | None = None,
        rotation_rules: dict[str, Any] | None = None,
        rotate_immediately: bool = True,
    ) -> str:
        with MOTO_LOCK:
            secret: Any = self.secrets.get(secret_id)
            if secret is None or client_request_token in secret.versions:
                # A token that was used asks for nothing new (documented).
                return self.describe_secret(secret_id).to_short_dict()
            function = rotation_lambda_arn or secret.rotation_lambda_arn
        calls = CURRENT.function_calls
        _check_function(calls, function, secret.arn)
        with MOTO_LOCK:
            labels = {name: one["version_stages"] for name, one in secret.versions.items()}
            before = _take_pending_labels(secret)
            try:
                answer = rotate(
                    self, secret_id, client_request_token, None, rotation_rules, rotate_immediately
                )
            except Exception:
                # What is refused changes nothing.
                for name, stages in labels.items():
                    secret.versions[name]["version_stages"] = stages
                raise
            version = _make_pending(secret, before, rotate_immediately)
            secret.rotation_lambda_arn = function
        if version and rotate_immediately and calls is not None:
            _run_steps(calls, function, secret.arn, version)
        return answer

    backend.rotate_secret = rotate_secret


def _check_function(calls: FunctionCalls | None, function: str, secret_arn: str) -> None:
    if not function:
        raise AwsError(
            "InvalidRequestException",
            "No Lambda rotation function ARN is associated with this secret.",
        )
    account = secret_arn.split(":")[4]
    if calls is not None and not calls.service_may_invoke(
        function, _SERVICE, source_arn=secret_arn, source_account=account
    ):
        raise AwsError(
            "AccessDeniedException",
            "Secrets Manager cannot invoke the specified Lambda function. Ensure that the function policy grants "
            f"access to the principal {_SERVICE}.",
        )


def _take_pending_labels(secret: Any) -> dict[str, list[str]]:
    """Take AWSPENDING from a secret's versions; return the labels that they keep, by version.

    moto refuses a rotation after one that ended well. AWS refuses one after a rotation that failed, which it tries
    again by itself; here RotateSecret is the next try.
    """
    for version in secret.versions.values():
        version["version_stages"] = [
            stage for stage in version["version_stages"] if stage != _PENDING
        ]
    return {name: list(version["version_stages"]) for name, version in secret.versions.items()}


def _make_pending(secret: Any, before: dict[str, list[str]], rotates: bool) -> str:
    """Make the new version the pending one, or take it back without a rotation; return its id, "" without a new one."""
    new = next(iter(set(secret.versions) - set(before)), "")
    if not before and rotates:
        new = str(uuid.uuid4())
        secret.versions[new] = {"createdate": CURRENT.clock.now_ms() // 1000, "version_id": new}
    for name, stages in before.items():
        secret.versions[name]["version_stages"] = list(stages)
    if new and rotates:
        secret.versions[new] = {
            **{key: secret.versions[new][key] for key in ("createdate", "version_id")},
            "version_stages": [_PENDING],
        }
    elif new:
        del secret.versions[new]
    current = [name for name, stages in before.items() if _CURRENT in stages]
    secret.set_default_version_id(current[0] if current else None)
    return new


def _run_steps(calls: FunctionCalls, function: str, secret_arn: str, version: str) -> None:
    for step in _STEPS:
        event = {"Step": step, "SecretId": secret_arn, "ClientRequestToken": version}
        try:
            result = calls.invoke(function, json.dumps(event).encode())
        except (FunctionNotFound, FunctionThrottled) as error:
            log.warning("The rotation of %s ends at %s: %r", secret_arn, step, error)
            return
        if result.function_error:
            log.warning("The rotation of %s ends: %s of %s failed", secret_arn, step, function)
            return


def note_reads(module: Any) -> None:
    """Note the day on which a secret and its version are read, without the hour (recorded; the day is documented)."""
    backend, secret = module.SecretsManagerBackend, module.FakeSecret
    get_value, to_dict = backend.get_secret_value, secret.to_dict

    @functools.wraps(get_value)
    def get_secret_value(self: Any, secret_id: str, *args: Any, **named: Any) -> Any:
        answer = get_value(self, secret_id, *args, **named)
        read: Any = self.secrets[secret_id]
        now_s = CURRENT.clock.now_ms() // 1000
        read.versions[answer["VersionId"]][_READ] = now_s - now_s % _DAY_S
        setattr(getattr(read, "source", read), _READ, now_s - now_s % _DAY_S)  # a replica has none
        return answer

    @functools.wraps(to_dict)
    def show(self: Any) -> dict[str, Any]:
        return to_dict(self) | {"LastAccessedDate": getattr(self, _READ, None)}

    backend.get_secret_value, secret.to_dict = get_secret_value, show


def follow_stages(module: Any) -> None:
    """Make GetSecretValue without a version give the current one: moto gives the newest that it knows as default."""
    backend = module.SecretsManagerBackend
    update, get_value = backend.update_secret_version_stage, backend.get_secret_value

    @functools.wraps(update)
    def update_secret_version_stage(self: Any, **named: Any) -> Any:
        answer = update(self, **named)
        if named["version_stage"] == _CURRENT and named["move_to_version_id"]:
            secret = self.secrets[named["secret_id"]]
            secret.set_default_version_id(named["move_to_version_id"])
        return answer

    @functools.wraps(get_value)
    def get_secret_value(self: Any, secret_id: str, version_id: str, version_stage: str) -> Any:
        answer = get_value(self, secret_id, version_id, version_stage)
        if "SecretString" not in answer and "SecretBinary" not in answer:
            # A pending version without a value yet; AWS's sentence, as of a version that is not there.
            which = (
                f"staging label: {version_stage}" if version_stage else f"VersionId: {version_id}"
            )
            raise module.ResourceNotFoundException(
                f"Secrets Manager can't find the specified secret value for {which}"
            )
        return answer | {"VersionStages": sorted(answer["VersionStages"])}

    backend.update_secret_version_stage = update_secret_version_stage
    backend.get_secret_value = get_secret_value
