"""The table of parameters that CloudFormation accepts without acting on them."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import operation_model, operation_name, service_model
from headrace.moto.without_effect import dropped_members
from headrace.services.cloudformation.actions import ACTIONS
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.fidelity import FIDELITY, fidelity_of
from headrace.services.cloudformation.requests import check_types
from headrace.services.cloudformation.resources import list_declared_types
from headrace.services.cloudformation.resources.declaration import Converter
from headrace.services.cloudformation.resources.declared_calls import list_ignored_inside
from headrace.services.cloudformation.template.template import Template, template_of


def test_the_table_names_parameters_of_operations_that_headrace_has():
    model = service_model("cloudformation")
    operations = {operation_name(action) for action in ACTIONS}
    for operation, levels in FIDELITY.items():
        assert operation in operations
        shape = model.operation_model(operation).input_shape
        assert shape is not None
        tops = {name.partition(".")[0] for name in levels}
        assert tops <= set(shape.members), operation


def template(kind: str, properties: dict[str, Any]) -> Template:
    return template_of("", {"Resources": {"C": {"Type": kind, "Properties": properties}}})


def connection(**more: object) -> Template:
    properties = {"CatalogId": "000000000000", "ConnectionInput": {"Name": "c", **more}}
    return template("AWS::Glue::Connection", properties)


def test_what_moto_drops_inside_a_property_is_told_with_its_path():
    rows = fidelity_of(connection(ValidateCredentials=True))
    assert [row["property"] for row in rows if row["level"] == "ignored"] == [
        "ConnectionInput.ValidateCredentials"
    ]
    assert not [row for row in fidelity_of(connection()) if row["level"] == "ignored"]
    with pytest.raises(AwsError, match=r"would ignore: C\.ConnectionInput\.ValidateCredentials"):
        check_types(connection(ValidateCredentials=True), strict=True)


def test_what_moto_drops_inside_lists_is_told_with_its_place():
    origins = [{"Id": "a"}, {"Id": "b", "OriginAccessControlId": "o"}]
    properties = {"DistributionConfig": {"Enabled": True, "Origins": origins}}
    rows = fidelity_of(template("AWS::CloudFront::Distribution", properties))
    told = {row["property"] for row in rows}
    assert "DistributionConfig.Origins[1].OriginAccessControlId" in told


def test_each_dropped_path_is_one_of_its_operation():
    for service, operations in dropped_members().items():
        for operation, paths in operations.items():
            for path in paths:
                shape = operation_model(service, operation).input_shape
                for name in path.split("."):
                    while shape.type_name == "list":
                        shape = shape.member
                    shape = shape.members[name]


def test_a_type_that_has_what_moto_drops_says_so():
    inside = {name: list_ignored_inside(one) for name, one in list_declared_types().items()}
    assert inside["AWS::Glue::Connection"][0].startswith("ConnectionInput.")
    # moto takes the rules of the older form, where the newer one is missing.
    for way in ("Ingress", "Egress"):
        ignored = dropped_members()["ec2"].get(f"AuthorizeSecurityGroup{way}", {})
        assert not {"CidrIp", "FromPort", "IpProtocol", "ToPort"} & set(ignored)


def test_values_convert_before_their_functions_are_evaluated_and_numbers_without_end_are_refused():
    members = service_model("logs").operation_model("PutMetricFilter").input_shape.members  # type: ignore[union-attr]
    transformation = members["metricTransformations"].member.members
    pairs = [{"Key": {"Ref": "Name"}, "Value": "$.a"}]
    converted = Converter().convert_map(pairs, transformation["dimensions"], "Dimensions")
    assert converted == {"{'Ref': 'Name'}": "$.a"}
    limit = service_model("logs").operation_model("FilterLogEvents").input_shape.members["limit"]  # type: ignore[union-attr]
    with pytest.raises(ResourceFailed, match="Limit is not a number"):
        Converter().number(float("inf"), limit, "Limit")
