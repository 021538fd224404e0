"""OpenSearch Serverless: access policies, deletions and updates; collections of any encryption policy that matches."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import json
from base64 import b64decode, b64encode
from typing import Any

from headrace.core.patterns import Wildcard
from headrace.moto.current_cloud import CURRENT

AWS_OWNED_KEY = "auto"


def create_by_patterns(module: Any) -> None:
    """Let a collection use an encryption policy with AWS's own key, or with `collection/logs-*`; one of each name."""
    from moto.moto_api._internal import mock_random
    from moto.opensearchserverless.exceptions import ConflictException, ValidationException
    from moto.utilities.utils import get_partition

    backend: Any = module.OpenSearchServiceServerlessBackend
    tag = backend.tag_resource

    def create_collection(
        self: Any, client_token: str, description: str, name: str, standby_replicas: str,
        tags: list[dict[str, str]], type: str,  # noqa: A002 - moto passes it by this name
    ) -> Any:  # fmt: skip
        if any(collection.name == name for collection in self.collections.values()):
            raise ConflictException(msg=f"Collection with name {name} already exists")
        policy = next(
            (
                policy.policy
                for policy in self.security_policies.values()
                if policy.type == "encryption" and _matches(f"collection/{name}", policy.resources)
            ),
            None,
        )
        if policy is None:
            raise ValidationException(
                msg="No matching security policy of encryption type found for collection name: "
                f"{name}. Please create security policy of encryption type for this collection."
            )
        collection = module.Collection(
            client_token=client_token or mock_random.get_random_string(10),
            description=description,
            name=name,
            standby_replicas=standby_replicas or "ENABLED",
            tags=tags,
            type=type or "TIMESERIES",
            policy={"KmsARN": policy.get("KmsARN", AWS_OWNED_KEY)},
            region=self.region_name,
            account_id=self.account_id,
        )
        partition = get_partition(self.region_name)
        collection.arn = collection.arn.replace("arn:aws:", f"arn:{partition}:", 1)
        self.collections[collection.id] = collection
        tag(self, collection.arn, tags or [])
        return collection

    backend.create_collection = create_collection


def _matches(resource: str, patterns: list[str]) -> bool:
    """Whether a policy's resources include this one; only `*` is special in them."""
    return any(Wildcard(tuple(pattern.split("*"))).matches(resource) for pattern in patterns)


def _find_access_policy(self: Any, request: dict[str, Any]) -> dict[str, Any]:
    from moto.opensearchserverless.exceptions import ResourceNotFoundException

    policies = _access_policies(self)
    if request["name"] not in policies:
        raise ResourceNotFoundException(
            msg=f"Policy with name {request['name']} and type {request['type']} is not found"
        )
    return policies[request["name"]]


def _create_access_policy(self: Any) -> str:
    from moto.opensearchserverless.exceptions import ConflictException

    parameters, now_ms = json.loads(self.body), CURRENT.clock.now_ms()
    if parameters["name"] in _access_policies(self):
        raise ConflictException(
            msg=f"Policy with name {parameters['name']} and type {parameters['type']} already exists"
        )
    policy = {
        **{
            name: parameters[name] for name in ("type", "name", "description") if name in parameters
        },
        "policy": json.loads(parameters["policy"]),
        "policyVersion": _version(now_ms, 1),
        "createdDate": now_ms,
        "lastModifiedDate": now_ms,
    }
    _access_policies(self)[parameters["name"]] = policy
    return json.dumps({"accessPolicyDetail": policy})


def _get_access_policy(self: Any) -> str:
    return json.dumps({"accessPolicyDetail": _find_access_policy(self, json.loads(self.body))})


def _update_access_policy(self: Any) -> str:
    from moto.opensearchserverless.exceptions import ValidationException

    given, now_ms = json.loads(self.body), CURRENT.clock.now_ms()
    policy = _find_access_policy(self, given)
    if given["policyVersion"] != policy["policyVersion"]:
        raise ValidationException(
            msg="Policy version specified in the request refers to an older version and policy has since changed"
        )
    if "description" in given:
        policy["description"] = given["description"]
    if not policy.get("description"):
        policy.pop("description", None)
    if "policy" in given:
        policy["policy"] = json.loads(given["policy"])
    count = int(b64decode(policy["policyVersion"]).rpartition(b"_")[2]) + 1
    policy.update(policyVersion=_version(now_ms, count), lastModifiedDate=now_ms)
    return json.dumps({"accessPolicyDetail": policy})


def _delete_access_policy(self: Any) -> str:
    policy = _find_access_policy(self, json.loads(self.body))
    del _access_policies(self)[policy["name"]]
    return "{}"


def _list_access_policies(self: Any) -> str:
    resource = json.loads(self.body).get("resource") or []
    summaries = [
        {name: value for name, value in policy.items() if name != "policy"}
        for policy in _access_policies(self).values()
        if not resource
        or set(resource)
        & {name for part in policy["policy"] for rule in part["Rules"] for name in rule["Resource"]}
    ]
    return json.dumps({"accessPolicySummaries": summaries})


_ACCESS_POLICY_CALLS = {
    "create_access_policy": _create_access_policy,
    "get_access_policy": _get_access_policy,
    "update_access_policy": _update_access_policy,
    "delete_access_policy": _delete_access_policy,
    "list_access_policies": _list_access_policies,
}


def add_access_policies(module: Any) -> None:
    """Add the calls for access policies."""
    for name, call in _ACCESS_POLICY_CALLS.items():
        setattr(module.OpenSearchServiceServerlessResponse, name, call)


def add_missing_calls(module: Any) -> None:
    """Add DeleteSecurityPolicy and UpdateCollection."""
    from moto.opensearchserverless.exceptions import ResourceNotFoundException

    response: Any = module.OpenSearchServiceServerlessResponse

    def delete_security_policy(self: Any) -> str:
        parameters, backend = json.loads(self.body), self.opensearchserverless_backend
        policy = backend.get_security_policy(parameters["name"], parameters["type"])
        del backend.security_policies[policy.client_token]
        return "{}"

    def update_collection(self: Any) -> str:
        request, backend = json.loads(self.body), self.opensearchserverless_backend
        if request["id"] not in backend.collections:
            raise ResourceNotFoundException(
                msg=f"Collection with ID {request['id']} cannot be found."
            )
        collection = backend.collections[request["id"]]
        collection.description = request.get("description", collection.description)
        collection.last_modified_date = CURRENT.clock.now_ms()
        return json.dumps({"updateCollectionDetail": collection.to_dict()})

    response.delete_security_policy = delete_security_policy
    response.update_collection = update_collection


def keep_descriptions(module: Any) -> None:
    """Let an update of a security policy keep what its request omits."""
    backend: Any = module.OpenSearchServiceServerlessBackend
    update = backend.update_security_policy

    @functools.wraps(update)
    def update_security_policy(self: Any, **given: Any) -> Any:
        policy = self.get_security_policy(given["name"], given["type"])
        given["client_token"] = policy.client_token
        if given["description"] is None:
            given["description"] = policy.description
        if given["policy"] is None:
            given["policy"] = json.dumps(policy.policy)
        return update(self, **given)

    backend.update_security_policy = update_security_policy


def _access_policies(response: Any) -> dict[str, dict[str, Any]]:
    """Return an account's policies by their names; state that was stored before has none."""
    return vars(response.opensearchserverless_backend).setdefault("access_policies", {})


def _version(now_ms: int, count: int) -> str:
    """Return a version as AWS writes it: base64 of the time and a count."""
    return b64encode(b"%d_%d" % (now_ms, count)).decode()
