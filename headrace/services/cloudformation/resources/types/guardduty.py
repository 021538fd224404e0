"""GuardDuty's detectors."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import Call, DeclaredType

DECLARED = [
    DeclaredType(
        "AWS::GuardDuty::Detector",
        "guardduty",
        create=[Call("CreateDetector")],
        id="@answer.DetectorId",
        update=[Call("UpdateDetector", {"DetectorId": "@id"})],
        delete=[Call("DeleteDetector", {"DetectorId": "@id"})],
        attributes={"Id": "@id"},
    ),
]
