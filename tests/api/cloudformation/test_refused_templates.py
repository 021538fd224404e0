"""What AWS refuses of a template's text is refused in its words, by ValidateTemplate and by CreateStack alike."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.cloudformation.test_stacks import create, refused

QUEUE = "Resources:\n  Q:\n    Type: AWS::SQS::Queue\n"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        # Reported by many, such as aws-samples/aws-cloud-compliance-assurance#2.
        (
            "Resources:\n  Q:\n\tType: AWS::SQS::Queue\n",
            "Template format error: YAML not well-formed. (line 3, column 1)",
        ),
        (
            "Resources: [a\n",
            "Template format error: YAML not well-formed. (line 2, column 1)",
        ),
        # Reported by many: 2020-09-09 and others.
        (
            f"AWSTemplateFormatVersion: 2020-09-09\n{QUEUE}",
            "Template format error: 2020-09-09 is not a supported value for AWSTemplateFormatVersion",
        ),
        # Documented: knowledge-center/cloudformation-template-validation.
        (
            f"Parameters:\n  P:\n    Type: Strng\n{QUEUE}",
            "Template format error: Unrecognized parameter type: Strng",
        ),
        # Reported by many, with this list.
        (
            f"{QUEUE}    Properties:\n      QueueName: !Foo x\n",
            "Template error: Encountered unsupported function: Fn::Foo Supported functions are: [Fn::Base64,",
        ),
        # Reported by many as the Serverless Framework's "The CloudFormation template is invalid: ", which is what
        # ValidateTemplate said, such as dougmoscrop/serverless-plugin-split-stacks#122.
        (
            f"{QUEUE}    DependsOn: R\n  R:\n    Type: AWS::SQS::Queue\n    DependsOn: Q\n",
            "Circular dependency between resources: [Q, R]",
        ),
        (
            f"{QUEUE}    DependsOn: R\n",
            "Template format error: Unresolved resource dependencies [R] in the Resources block of the template",
        ),
        (
            f"{QUEUE}    Properties:\n      QueueName: !GetAtt R.Arn\n",
            "Template error: instance of Fn::GetAtt references undefined resource R",
        ),
        (
            f"{QUEUE}Outputs:\n  O: {{Value: !GetAtt R.Arn}}\n",
            "Template error: instance of Fn::GetAtt references undefined resource R",
        ),
        # Reported by many; that the attribute follows is how Eucalyptus imitates AWS. Without one: reported with
        # validate-template in aws-samples/sample-OpenClaw-on-AWS-with-Bedrock#131.
        (
            f"{QUEUE}    Properties:\n      QueueName: !Sub 'a-${{R.Arn}}'\n",
            "Template error: instance of Fn::Sub references invalid resource attribute R.Arn",
        ),
        (
            f"{QUEUE}    Properties:\n      QueueName: !Sub 'a-${{R}}'\n",
            "Template format error: Unresolved resource dependencies [R] in the Resources block of the template",
        ),
    ],
)
def test_a_broken_template_is_refused_in_aws_s_words(cfn: Any, body: str, said: str):
    for call, params in ((cfn.validate_template, {}), (cfn.create_stack, {"StackName": "broken"})):
        code, message = refused(call, TemplateBody=body, **params)
        assert code == "ValidationError"
        assert message.startswith(said)


@pytest.mark.parametrize(
    "kind", ["AWS::SSM::Parameter::Value<String>", "List<AWS::EC2::Subnet::Id>", "List<Number>"]
)
def test_aws_s_own_types_of_parameters_are_known(cfn: Any, kind: str):
    body = f"AWSTemplateFormatVersion: 2010-09-09\nParameters:\n  P:\n    Type: {kind}\n{QUEUE}"
    assert cfn.validate_template(TemplateBody=body)["Parameters"][0]["ParameterKey"] == "P"


# What a queue's name is; reported by many, or how Eucalyptus imitates AWS (`functions`), Cidr's assumed.
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("!Join [a]", "every Fn::Join object requires two parameters, (1) a string delimiter and (2)"),
        ("!Split [a]", "every Fn::Split object requires two parameters, (1) a string delimiter and"),
        ("!Select [1]", "Fn::Select requires a list argument with two elements: an integer index and"),
        ("!Base64 [a]", "every Fn::Base64 object must have a String-typed value."),
        ("!GetAZs [a]", "every Fn::GetAZs object must have a String-typed value."),
        ("!Cidr [a]", "every Fn::Cidr object requires an address block, the number of blocks"),
        ("!FindInMap [M, a]", "every Fn::FindInMap object requires three parameters, the map name, map key"),
        ("!FindInMap [M, a, b]", "Mapping named 'M' is not present in the 'Mappings' section of template."),
        ("!If [C, a]", "Fn::If requires a list argument with three elements"),
        ("!If [C, a, b]", "unresolved condition dependency C in Fn::If"),
        ("!If [[C], a, b]", "Fn::If requires a list argument with the first element being a condition"),
        ("!ImportValue {Ref: Q}", "the attribute in Fn::ImportValue must not depend on any resources,"),
        ("!ImportValue {'Fn::Sub': '${Q.Arn}'}", "the attribute in Fn::ImportValue must not depend on"),
        ("!ImportValue {'Fn::ImportValue': a}", "the attribute in Fn::ImportValue must not depend on"),
    ],
)  # fmt: skip
def test_a_function_that_cannot_be_right_is_refused_before_it_is_evaluated(
    cfn: Any, name: str, said: str
):
    body = f"{QUEUE}  R:\n    Type: AWS::SQS::Queue\n    Properties:\n      QueueName: {name}\n"
    for call, params in ((cfn.validate_template, {}), (cfn.create_stack, {"StackName": "broken"})):
        code, message = refused(call, TemplateBody=body, **params)
        assert code == "ValidationError"
        assert message.startswith(f"Template error: {said}")


EXPORT = (
    "Template format error: Output O is malformed. The Name field of every Export member must be specified and consist"
    " only of alphanumeric characters, colons, or hyphens."
)
CONDITIONS = (
    "Template format error: Unresolved dependencies [Q]. Cannot reference resources in the Conditions block of the"
    " template"
)
VALUE = "Template format error: The Value field of every Outputs member must evaluate to a String"


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("Outputs: {O: {Value: {a: b}}}", f"{VALUE} and not a Map."),
        ("Outputs: {O: {Value: [a]}}", f"{VALUE} and not a List."),
        ("Parameters: {P: {Type: CommaDelimitedList, Default: a}}\nOutputs: {O: {Value: !Ref P}}", f"{VALUE}."),
        ("Outputs: {O: {Value: !GetAZs ''}}", f"{VALUE}."),
        # Reported: aws/aws-cdk#28563, aws-cloudformation/cfn-lint#1632 (with two spaces).
        ("Outputs: {O: {Value: a, Export: {Name: ''}}}", EXPORT),
        ("Outputs: {O: {Value: a, Export: {}}}", EXPORT),
        ("Outputs: {O: {Value: a, Export: {Name: a_b}}}", EXPORT),
        (
            "Outputs: {O: {Value: a, Export: {Name: !Sub 'a-${Q}'}}}",
            (
                "Template format error: Output O is malformed.  The Name field of Export must not depend on any"
                " resources, imported values, or Fn::GetAZs."
            ),
        ),
        (
            "Conditions: {C: !Equals [!Ref Q, a]}",
            CONDITIONS,
        ),
        (
            "Conditions: {C: !Equals [a]}",
            "Template error: every Fn::Equals object requires a list of 2 string parameters.",
        ),
        ("Parameters: {P: {Type: String, Properties: {}}}", "Invalid template parameter property 'Properties'"),
        (
            "Mappings: {M: {a: {x-y: z}}}",
            "Template format error: Mappings attribute name 'x-y' must contain only alphanumeric characters.",
        ),
    ],
)  # fmt: skip
def test_a_section_that_cannot_be_right_is_refused(cfn: Any, section: str, said: str):
    for call, params in ((cfn.validate_template, {}), (cfn.create_stack, {"StackName": "broken"})):
        assert refused(call, TemplateBody=f"{QUEUE}{section}\n", **params) == (
            "ValidationError",
            said,
        )


def test_the_name_of_an_export_is_looked_at_with_its_parameters(cfn: Any):
    sections = (
        "Parameters: {P: {Type: String}}\nOutputs: {O: {Value: a, Export: {Name: !Sub 'x${P}'}}}\n"
    )
    given = {
        "StackName": "broken",
        "TemplateBody": f"{QUEUE}{sections}",
        "Parameters": [{"ParameterKey": "P", "ParameterValue": "_"}],
    }
    assert refused(cfn.create_stack, **given) == ("ValidationError", EXPORT)


def test_a_parameter_without_a_key_is_refused_before_the_template_is_read(cfn: Any):
    """Assumed: every "validation error detected" is of the request, which AWS checks first."""
    given: dict[str, Any] = {"Parameters": [{"ParameterValue": "a"}]}
    _, message = refused(cfn.create_stack, StackName="k", TemplateBody="Resources: [", **given)
    assert "Value null at 'parameters.1.member.parameterKey'" in message


def test_an_application_of_the_repository_is_refused_by_name(cfn: Any):
    """The translator would ask AWS for it, with whatever credentials the cloud's environment has."""
    of_aws = {
        "ApplicationId": "arn:aws:serverlessrepo:us-east-1:297356227824:applications/Rotation"
    }
    application = {
        "Type": "AWS::Serverless::Application",
        "Properties": {"Location": {**of_aws, "SemanticVersion": "1.1.37"}},
    }
    body = {"Transform": "AWS::Serverless-2016-10-31", "Resources": {"App": application}}
    given: dict[str, Any] = {"Capabilities": ["CAPABILITY_AUTO_EXPAND"]}
    assert create(cfn, body, **given) == "ROLLBACK_COMPLETE"
    events = cfn.describe_stack_events(StackName="s")["StackEvents"]
    said = [one.get("ResourceStatusReason", "") for one in events]
    assert any("Repository, which App takes arn:aws:serverlessrepo" in one for one in said), said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("AWS::SecretsManager-2024-09-16", "; name your own function by RotationLambdaARN"),
        (
            "AWS::CodeDeployBlueGreen",
            "headrace does not have AWS's transform AWS::CodeDeployBlueGreen",
        ),
    ],
)
def test_a_transform_of_aws_that_headrace_lacks_is_no_macro_of_the_account(
    cfn: Any, name: str, said: str
):
    body = {"Transform": name, "Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}
    assert (
        create(cfn, body, "lacks", Capabilities=["CAPABILITY_AUTO_EXPAND"]) == "ROLLBACK_COMPLETE"
    )
    events = cfn.describe_stack_events(StackName="lacks")["StackEvents"]
    reasons = [one.get("ResourceStatusReason", "") for one in events]
    assert any(said in one for one in reasons), reasons
    cfn.delete_stack(StackName="lacks")
