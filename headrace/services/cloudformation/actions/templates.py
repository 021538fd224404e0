"""Templates: return, check and summarise them."""

from headrace.aws.operation import Call, operation
from headrace.aws.shapes import cloudformation as shapes
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.errors import change_set_not_found, stack_not_found
from headrace.services.cloudformation.fidelity import check_types
from headrace.services.cloudformation.template import Template
from headrace.services.cloudformation.template_checks import parse


@operation("GetTemplate")
def get_template(
    cfn: CloudFormation, call: Call, request: shapes.GetTemplateInput
) -> shapes.GetTemplateOutput:
    """Return the text that a stack was made from, unchanged. Source: API_GetTemplate."""
    stages = ["Original", "Processed"]
    set_name = request.get("ChangeSetName")
    if set_name and set_name.startswith("arn:"):
        change_set = cfn.stacks.change_set(set_name)
        if change_set is None:
            raise change_set_not_found(set_name)
        return {"TemplateBody": change_set.body, "StagesAvailable": stages}
    stack = cfn.stacks.find(call.account, call.region, request.get("StackName", ""))
    if stack is None:
        raise stack_not_found(request.get("StackName", ""))
    if set_name:
        for change_set in cfn.stacks.change_sets(stack.stack_id):
            if change_set.name == set_name:
                return {"TemplateBody": change_set.body, "StagesAvailable": stages}
        raise change_set_not_found(set_name)
    return {"TemplateBody": stack.body, "StagesAvailable": stages}


def _parameters(template: Template) -> list[shapes.TemplateParameter]:
    rows: list[shapes.TemplateParameter] = []
    for name, declaration in template.parameters.items():
        row: shapes.TemplateParameter = {
            "ParameterKey": name,
            "NoEcho": declaration.get("NoEcho") in (True, "true"),
        }
        if "Default" in declaration:
            row["DefaultValue"] = str(declaration["Default"])
        if declaration.get("Description"):
            row["Description"] = declaration["Description"]
        rows.append(row)
    return rows


def _capabilities(template: Template) -> list[str]:
    iam = any(str(r["Type"]).startswith("AWS::IAM::") for r in template.resources.values())
    return ["CAPABILITY_IAM"] if iam else []


@operation("ValidateTemplate")
def validate_template(
    cfn: CloudFormation, call: Call, request: shapes.ValidateTemplateInput
) -> shapes.ValidateTemplateOutput:
    """Check a template. Source: API_ValidateTemplate."""
    template = parse(cfn.read_template(request))
    check_types(template, strict=cfn.strict)
    return {
        "Description": template.description,
        "Parameters": _parameters(template),
        "Capabilities": _capabilities(template),
    }


@operation("GetTemplateSummary")
def get_template_summary(
    cfn: CloudFormation, call: Call, request: shapes.GetTemplateSummaryInput
) -> shapes.GetTemplateSummaryOutput:
    """Return what is in a template. Source: API_GetTemplateSummary."""
    name = request.get("StackName")
    if name:
        stack = cfn.stacks.find(call.account, call.region, name)
        if stack is None:
            raise stack_not_found(name)
        body = stack.body
    else:
        body = cfn.read_template(request)
    template = parse(body)
    rows: list[shapes.ParameterDeclaration] = [
        {**row, "ParameterType": declaration.get("Type", "String")}
        for row, declaration in zip(
            _parameters(template), template.parameters.values(), strict=True
        )
    ]
    return {
        "Description": template.description,
        "Parameters": rows,
        "Capabilities": _capabilities(template),
        "ResourceTypes": sorted({str(r["Type"]) for r in template.resources.values()}),
    }
