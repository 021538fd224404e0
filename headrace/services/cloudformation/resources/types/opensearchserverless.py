"""OpenSearch Serverless: collections, and the policies that encrypt, connect and open them.

Firehose's destination finds a collection by its endpoint (`headrace/services/opensearch/`).
"""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import Call, DeclaredType, Source

_SERVICE = "opensearchserverless"
_POLICY: dict[str, Source] = {"type": "Type", "name": "Name"}


def _policy_type(kind: str) -> DeclaredType:
    return DeclaredType(
        f"AWS::OpenSearchServerless::{kind}",
        _SERVICE,
        create=[Call(f"Create{kind}")],
        id=lambda v: f"{v.get('Type')}|{v.get('Name')}",
        read=Call(f"Get{kind}", _POLICY),
        update=[
            # The version is the read one: an update must name it.
            Call(f"Get{kind}", _POLICY, only=(), always=True),
            Call(
                f"Update{kind}",
                {
                    "policyVersion": f"@answer.{kind[0].lower()}{kind[1:]}Detail.policyVersion",
                    **_POLICY,
                },
                only=("Policy", "Description"),
            ),
        ],
        delete=[Call(f"Delete{kind}", _POLICY)],
    )


DECLARED = [
    DeclaredType(
        "AWS::OpenSearchServerless::Collection",
        _SERVICE,
        create=[Call("CreateCollection")],
        id="@answer.createCollectionDetail.id",
        read=Call("BatchGetCollection", {"ids": lambda v: [v.id]}),
        exists=lambda v: bool(
            v.context.call(_SERVICE, "BatchGetCollection", {"names": [v.get("Name")]})[
                "collectionDetails"
            ]
        ),
        update=[Call("UpdateCollection", {"id": "@id"}, only=("Description",))],
        delete=[Call("DeleteCollection", {"id": "@id"})],
        # Deleting it would delete its indexes.
        deletes_others=True,
        attributes={
            "Arn": "@answer.collectionDetails.0.arn",
            "CollectionEndpoint": "@answer.collectionDetails.0.collectionEndpoint",
            "DashboardEndpoint": "@answer.collectionDetails.0.dashboardEndpoint",
            "KmsKeyArn": "@answer.collectionDetails.0.kmsKeyArn",
        },
    ),
    _policy_type("SecurityPolicy"),
    _policy_type("AccessPolicy"),
]
