"""Elasticsearch's domains."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import Call, DeclaredType

_DOMAIN = {"DomainName": "@id"}


DECLARED = [
    DeclaredType(
        "AWS::Elasticsearch::Domain",
        "es",
        create=[Call("CreateElasticsearchDomain")],
        id="DomainName",
        read=Call("DescribeElasticsearchDomain", _DOMAIN),
        # Deleting it would delete its indexes.
        deletes_others=True,
        tag=("AddTags", "RemoveTags", "ARN", "@answer.DomainStatus.ARN"),
        update=[Call("UpdateElasticsearchDomainConfig", _DOMAIN, empties=True)],
        delete=[Call("DeleteElasticsearchDomain", _DOMAIN)],
        name="DomainName",
        name_length=28,
        name_lower=True,
        attributes={
            "Arn": "@answer.DomainStatus.ARN",
            "DomainArn": "@answer.DomainStatus.ARN",
            "DomainEndpoint": "@answer.DomainStatus.Endpoint",
        },
    ),
]
