"""WAF's web ACLs."""

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
    DeclaredType(
        "AWS::WAFv2::IPSet",
        "wafv2",
        create=[Call("CreateIPSet", {"Name": own_name("Name", 128)})],
        id=lambda v: f"{v.answer['Summary']['Name']}|{v.answer['Summary']['Id']}|{v.get('Scope')}",
        read=Call(
            "GetIPSet",
            {
                "Name": lambda v: v.id.split("|")[0],
                "Id": lambda v: v.id.split("|")[1],
                "Scope": "Scope",
            },
        ),
        update=[Call("UpdateIPSet", _wafv2("GetIPSet", "LockToken"))],
        tag=("TagResource", "UntagResource", "ResourceARN", "@answer.IPSet.ARN"),
        delete=[
            Call(
                "DeleteIPSet",
                {
                    "Name": lambda v: v.id.split("|")[0],
                    "Id": lambda v: v.id.split("|")[1],
                    "Scope": "Scope",
                    "LockToken": "@answer.LockToken",
                },
            )
        ],
        attributes={"Arn": "@answer.IPSet.ARN", "Id": "@answer.IPSet.Id"},
    ),
    DeclaredType(
        "AWS::WAFv2::WebACLAssociation",
        "wafv2",
        create=[Call("AssociateWebACL")],
        id=lambda v: f"{v.get('WebACLArn')}|{v.get('ResourceArn')}",
        delete=[Call("DisassociateWebACL", {"ResourceArn": "ResourceArn"})],
        holds=_is_guarded,
    ),
]
