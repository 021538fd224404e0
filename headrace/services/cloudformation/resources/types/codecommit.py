"""CodeCommit's repositories."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import Call, DeclaredType

DECLARED = [
    DeclaredType(
        "AWS::CodeCommit::Repository",
        "codecommit",
        create=[Call("CreateRepository")],
        id="@answer.repositoryMetadata.repositoryId",
        delete=[Call("DeleteRepository", {"repositoryName": "RepositoryName"})],
        attributes={
            "Arn": "@answer.repositoryMetadata.Arn",
            "Name": "RepositoryName",
            "RepositoryId": "@id",
            "CloneUrlHttp": "@answer.repositoryMetadata.cloneUrlHttp",
            "CloneUrlSsh": "@answer.repositoryMetadata.cloneUrlSsh",
        },
    ),
]
