"""OpenSearch's domains; `headrace/services/opensearch/` gives them an endpoint."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import Call, DeclaredType

_DOMAIN = {"DomainName": "@id"}


DECLARED = [
    DeclaredType(
        "AWS::OpenSearchService::Domain",
        "opensearch",
        create=[Call("CreateDomain")],
        id="DomainName",
        read=Call("DescribeDomain", _DOMAIN),
        # Deleting it would delete its indexes.
        deletes_others=True,
        tag=("AddTags", "RemoveTags", "ARN", "@answer.DomainStatus.ARN"),
        update=[Call("UpdateDomainConfig", _DOMAIN)],
        delete=[Call("DeleteDomain", _DOMAIN)],
        name="DomainName",
        name_length=28,
        name_lower=True,
        attributes={
            "Arn": "@answer.DomainStatus.ARN",
            "DomainArn": "@answer.DomainStatus.ARN",
            "DomainEndpoint": "@answer.DomainStatus.Endpoint",
            "Id": "@answer.DomainStatus.DomainId",
        },
    ),
]
