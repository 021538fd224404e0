"""CodePipeline's pipelines, as stored settings: nothing here runs their actions."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Values,
    declare_sources,
)


@declare_sources("ArtifactStores")
def _map_stores(values: Values) -> dict[str, Any] | None:
    """Return the artifact stores by their regions, as the API has them."""
    stores = values.items("ArtifactStores")
    return {store["Region"]: store["ArtifactStore"] for store in stores} or None


_STORES = {"artifactStores": _map_stores}

DECLARED = [
    DeclaredType(
        "AWS::CodePipeline::Pipeline",
        "codepipeline",
        create=[Call("CreatePipeline", _STORES, into="pipeline")],
        id="Name",
        name="Name",
        read=Call("GetPipeline", {"name": "@id"}),
        update=[Call("UpdatePipeline", {"name": "@id", **_STORES}, into="pipeline")],
        delete=[Call("DeletePipeline", {"name": "@id"})],
        attributes={"Version": "@answer.pipeline.version", "Arn": "@answer.metadata.pipelineArn"},
    )
]
