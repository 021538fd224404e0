"""ACM's certificates."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import Call, DeclaredType

DECLARED = [
    DeclaredType(
        "AWS::CertificateManager::Certificate",
        "acm",
        create=[Call("RequestCertificate")],
        id="@answer.CertificateArn",
        delete=[Call("DeleteCertificate", {"CertificateArn": "@id"})],
        attributes={"Id": "@id"},
    ),
]
