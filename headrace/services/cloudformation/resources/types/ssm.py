"""SSM parameters."""

from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    enforced,
    stored,
)


def _put(context: Context, name: str, properties: Properties, *, overwrite: bool) -> ResourceResult:
    params = {
        "Name": name,
        "Type": properties["Type"],
        "Value": str(properties["Value"]),
        "Description": properties.get("Description", ""),
        "Overwrite": overwrite,
    }
    if "AllowedPattern" in properties:
        params["AllowedPattern"] = properties["AllowedPattern"]
    context.call("ssm", "PutParameter", params)
    return ResourceResult(name, {"Type": properties["Type"], "Value": str(properties["Value"])})


def _create(context: Context, properties: Properties) -> ResourceResult:
    name = properties.get("Name") or context.made_up(
        lambda: f"CFN-{context.logical_id}-{context.ids.alnum(12)}"
    )
    return _put(context, name, properties, overwrite=False)


def _update(context: Context, physical_id: str, old: Properties, new: Properties) -> ResourceResult:
    return _put(context, physical_id, new, overwrite=True)


def _delete(context: Context, physical_id: str, properties: Properties) -> None:
    context.delete_if_exists("ssm", "DeleteParameter", {"Name": physical_id}, "ParameterNotFound")


TYPES = [
    ResourceType(
        "AWS::SSM::Parameter",
        {
            **enforced("Name", "Type", "Value", "AllowedPattern"),
            **stored("Description", "Tier", "Tags"),
        },
        _create,
        _delete,
        update=_update,
        replace_on=frozenset({"Name"}),
        named_by=("Name",),
    )
]
