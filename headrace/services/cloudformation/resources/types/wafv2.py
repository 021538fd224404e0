"""WAF: web ACLs and their parts, as stored settings."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
    own_name,
)


def _is_guarded(values: Values) -> bool:
    """Whether the resource still has the association's web ACL."""
    params = {"ResourceArn": values.get("ResourceArn")}
    answer = values.context.call("wafv2", "GetWebACLForResource", params)
    return answer.get("WebACL", {}).get("ARN") == values.get("WebACLArn")


def _wafv2(operation: str, answer: str) -> dict[str, Source]:
    """Return the members that name a WAF resource, with the lock token that a change requires."""

    def token(values: Values) -> str:
        name, own_id, scope = values.id.split("|")
        params = {"Name": name, "Id": own_id, "Scope": scope}
        return str(values.context.call("wafv2", operation, params)[answer])

    return {
        "Name": lambda v: v.id.split("|")[0],
        "Id": lambda v: v.id.split("|")[1],
        "Scope": lambda v: v.id.split("|")[2],
        "LockToken": token,
    }


@declare_sources("RegularExpressionList")
def _expressions(values: Values) -> list[dict[str, str]] | None:
    """Return a set's patterns, which a template gives as texts, in the API's form."""
    texts = values.get("RegularExpressionList")
    return None if texts is None else [{"RegexString": str(text)} for text in texts]


def _named_set(kind: str, **attributes: Source) -> DeclaredType:
    """Return the type of a part of web ACLs: `IPSet`, `RegexPatternSet` or `RuleGroup`."""
    members = {"RegularExpressionList": _expressions} if kind == "RegexPatternSet" else {}
    return DeclaredType(
        f"AWS::WAFv2::{kind}",
        "wafv2",
        create=[Call(f"Create{kind}", {"Name": own_name("Name", 128), **members})],
        id=lambda v: f"{v.answer['Summary']['Name']}|{v.answer['Summary']['Id']}|{v.get('Scope')}",
        read=Call(
            f"Get{kind}",
            {
                "Name": lambda v: v.id.split("|")[0],
                "Id": lambda v: v.id.split("|")[1],
                "Scope": "Scope",
            },
        ),
        update=[Call(f"Update{kind}", {**_wafv2(f"Get{kind}", "LockToken"), **members})],
        tag=("TagResource", "UntagResource", "ResourceARN", f"@answer.{kind}.ARN"),
        delete=[
            Call(
                f"Delete{kind}",
                {
                    "Name": lambda v: v.id.split("|")[0],
                    "Id": lambda v: v.id.split("|")[1],
                    "Scope": "Scope",
                    "LockToken": "@answer.LockToken",
                },
            )
        ],
        attributes={"Arn": f"@answer.{kind}.ARN", "Id": f"@answer.{kind}.Id", **attributes},
    )


DECLARED = [
    DeclaredType(
        "AWS::WAFv2::WebACL",
        "wafv2",
        create=[Call("CreateWebACL")],
        id=lambda v: f"{v.get('Name')}|{v.answer['Summary']['Id']}|{v.get('Scope')}",
        read=Call(
            "GetWebACL",
            {
                "Name": "Name",
                "Scope": "Scope",
                "Id": lambda v: v.id.split("|")[1] if "|" in v.id else None,
            },
        ),
        update=[
            Call(
                "UpdateWebACL",
                {
                    **_wafv2("GetWebACL", "LockToken"),
                    "Rules": declare_sources("Rules")(lambda v: v.get("Rules") or []),
                },
                empties=True,
            )
        ],
        tag=("TagResource", "UntagResource", "ResourceARN", "@answer.WebACL.ARN"),
        delete=[
            Call(
                "DeleteWebACL",
                {
                    "Name": lambda v: v.id.split("|")[0],
                    "Id": lambda v: v.id.split("|")[1],
                    "Scope": "Scope",
                    "LockToken": "@answer.LockToken",
                },
            )
        ],
        attributes={
            "Arn": "@answer.WebACL.ARN",
            "Id": "@answer.WebACL.Id",
            "Capacity": lambda v: str(v.answer["WebACL"].get("Capacity", 0)),
            "LabelNamespace": "@answer.WebACL.LabelNamespace",
        },
    ),
    _named_set("IPSet"),
    _named_set("RegexPatternSet"),
    _named_set("RuleGroup", LabelNamespace="@answer.RuleGroup.LabelNamespace"),
    DeclaredType(
        "AWS::WAFv2::WebACLAssociation",
        "wafv2",
        create=[Call("AssociateWebACL")],
        id=lambda v: f"{v.get('WebACLArn')}|{v.get('ResourceArn')}",
        delete=[Call("DisassociateWebACL", {"ResourceArn": "ResourceArn"})],
        holds=_is_guarded,
    ),
    DeclaredType(
        "AWS::WAFv2::LoggingConfiguration",
        "wafv2",
        create=[Call("PutLoggingConfiguration", into="LoggingConfiguration")],
        id="ResourceArn",
        read=Call("GetLoggingConfiguration", {"ResourceArn": "@id"}),
        update=[
            Call(
                "PutLoggingConfiguration",
                {"ResourceArn": "@id"},
                into="LoggingConfiguration",
                always=True,
            )
        ],
        delete=[Call("DeleteLoggingConfiguration", {"ResourceArn": "@id"})],
        attributes={"ManagedByFirewallManager": lambda _: False},
    ),
]
