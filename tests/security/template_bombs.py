"""Templates that are small and become large, or take for ever, or break what reads them.

Run by test_templates.py in a process of its own with bounded memory. For each it prints a JSON line: the bomb's name,
what was answered (or the stack's last status and reason), the seconds it took and the most memory used so far.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from tests.support.cloud import InProcessCloud

MOST_MEMORY_BYTES = 3 << 30
HANDLE = {"Type": "AWS::CloudFormation::WaitConditionHandle"}
DATA = "AWS::CDK::Metadata"  # a resource whose one property takes any text
URL = "http://127.0.0.1:4566/templates/t"
BOMBS: dict[str, Callable[[], Any]] = {}


def bomb(function: Callable[[], Any]) -> Callable[[], Any]:
    BOMBS[function.__name__] = function
    return function


def holding(value: Any, **sections: Any) -> dict[str, Any]:
    """Return a template with a value in a property."""
    made = {"Type": DATA, "Properties": {"Analytics": value}}
    return {"Resources": {"R": made}, **sections}


def nested(times: int, seed: Any, wrap: Callable[[Any], Any]) -> Any:
    value = seed
    for _ in range(times):
        value = wrap(value)
    return value


# --- YAML -------------------------------------------------------------------------------------


@bomb
def yaml_aliases() -> Any:
    lines = ["Resources:", " R:", f"  Type: {DATA}", "  Properties:", "   Analytics:"]
    lines += ["    a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"    a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    return "\n".join(lines)


@bomb
def yaml_alias_of_itself() -> Any:
    return "Resources: &a\n  R: *a\n"


@bomb
def yaml_merge_keys() -> Any:
    return "Resources:\n  R:\n    <<: {Type: AWS::CloudFormation::WaitConditionHandle}\n"


@bomb
def yaml_flow_20_000_deep() -> Any:
    return "Resources: " + "[" * 20_000


@bomb
def yaml_block_20_000_deep() -> Any:
    return "- " * 20_000 + "x"


@bomb
def yaml_python_objects() -> Any:
    return "Resources: !!python/object/apply:os.system ['true']"


@bomb
def yaml_binary() -> Any:
    return "Resources: {R: {Type: !!binary aGVsbG8=}}"


@bomb
def yaml_sexagesimal() -> Any:
    number = ":".join(["1"] * 20_000)
    return f"Resources: {{R: {{Type: {DATA}, Properties: {{Analytics: {number}}}}}}}\n"


@bomb
def yaml_long_numbers() -> Any:
    number = "9" * 20_000
    return f"Resources: {{R: {{Type: {DATA}, Properties: {{Analytics: [{number}, 0x{number}, .inf, .nan]}}}}}}\n"


@bomb
def yaml_keys_twice() -> Any:
    return "Resources:\n  R: {Type: a}\n  R: {Type: b}\n"


@bomb
def yaml_keys_that_are_lists() -> Any:
    return "Resources:\n  ? [a, b]\n  : {Type: a}\n"


# --- JSON -------------------------------------------------------------------------------------


@bomb
def json_20_000_deep() -> Any:
    return '{"Resources":' + "[" * 20_000 + "]" * 20_000 + "}"


@bomb
def json_101_deep() -> Any:
    return holding(nested(101, "x", lambda value: [value]))


@bomb
def json_long_numbers() -> Any:
    numbers = f"[{'9' * 20_000}, 1e999, 1.{'1' * 9000}]"
    return json.dumps(holding("numbers")).replace('"numbers"', numbers)


@bomb
def json_nan() -> Any:
    return '{"Resources":{"R":{"Type":"a","Properties":{"x":NaN}}}}'


@bomb
def json_keys_twice() -> Any:
    return '{"Resources":{"R":{"Type":"a"},"R":{"Type":"b"}}}'


@bomb
def json_null() -> Any:
    return {"Resources": {"R": HANDLE}, "Outputs": {"O": {"Value": None}}}


@bomb
def json_lone_surrogates() -> Any:
    return (
        '{"Resources":{"R":{"Type":"'
        + DATA
        + '","Properties":{"Analytics":{"Fn::Base64":"\\ud800"}}}}}'
    )


# --- functions --------------------------------------------------------------------------------


@bomb
def joins_of_joins() -> Any:
    # 1.2 KB that become 1.9 GB: each delimiter is a join itself.
    value = nested(12, "x" * 10, lambda inner: {"Fn::Join": [inner, [""] * 7]})
    return holding(value)


@bomb
def subs_of_subs() -> Any:
    value = nested(20, "x" * 10, lambda inner: {"Fn::Sub": ["${a}${a}${a}${a}", {"a": inner}]})
    return holding(value)


@bomb
def texts_of_texts() -> Any:
    template = holding(nested(40, '"', lambda inner: {"Fn::ToJsonString": {"a": inner}}))
    return {**template, "Transform": "AWS::LanguageExtensions"}


@bomb
def a_long_delimiter_that_an_extension_settles() -> Any:
    joined = {"Fn::Join": ["x" * 20_000, ["a"] * 5_000]}
    return {**holding(joined), "Transform": "AWS::LanguageExtensions"}


@bomb
def base64_of_base64() -> Any:
    return holding(nested(90, "x" * 1000, lambda inner: {"Fn::Base64": inner}))


@bomb
def splits_joined() -> Any:
    letters = {"Fn::Split": ["a", "a" * 20_000]}
    return holding({"Fn::Join": ["x" * 20_000, letters]})


@bomb
def lists_referred_to_often() -> Any:
    parameter = {"Type": "CommaDelimitedList", "Default": "a," * 2000}
    return holding([{"Ref": "P"}] * 3000, Parameters={"P": parameter})


@bomb
def mappings_referred_to_often() -> Any:
    mapping = {"a": {"b": ["x" * 10] * 1000}}
    find = {"Fn::FindInMap": ["M", "a", "b"]}
    return holding([find] * 700, Mappings={"M": mapping})


@bomb
def cidrs_2_000_000() -> Any:
    return holding({"Fn::Cidr": ["10.0.0.0/8", 2_000_000, 2]})


@bomb
def cidrs_of_the_whole_internet() -> Any:
    return holding({"Fn::Cidr": ["::/0", 256, "9" * 5000]})


@bomb
def cidrs_joined() -> Any:
    inner: Any = {"Fn::Join": [",", {"Fn::Cidr": ["10.0.0.0/8", 256, 8]}]}
    return holding(nested(8, inner, lambda one: {"Fn::Join": [one, ["", "", "", "", ""]]}))


@bomb
def select_far_away() -> Any:
    return holding({"Fn::Select": ["9" * 20_000, ["a"]]})


@bomb
def names_of_a_sub() -> Any:
    return holding({"Fn::Sub": "${" * 20_000})


@bomb
def dynamic_references() -> Any:
    return holding(["{{resolve:ssm:p}}"] * 61)


@bomb
def a_dynamic_reference_to_itself() -> Any:
    return holding({"Fn::Sub": "{{resolve:ssm:itself}}" * 10})


# --- conditions, rules and dependencies -------------------------------------------------------


@bomb
def a_condition_of_itself() -> Any:
    return {"Conditions": {"A": {"Fn::Not": [{"Condition": "A"}]}}, "Resources": {"R": HANDLE}}


@bomb
def conditions_in_a_circle() -> Any:
    def both(name: str) -> Any:
        return {"Fn::And": [{"Condition": name}, {"Condition": name}]}

    return {
        "Conditions": {"A": both("B"), "B": both("C"), "C": both("A")},
        "Resources": {"R": HANDLE},
    }


@bomb
def conditions_that_double() -> Any:
    conditions: Any = {"C0": {"Fn::Equals": ["a", "a"]}}
    for i in range(1, 100):
        conditions[f"C{i}"] = {"Fn::And": [{"Condition": f"C{i - 1}"}] * 10}
    return {"Conditions": conditions, "Resources": {"R": {**HANDLE, "Condition": "C99"}}}


@bomb
def conditions_in_a_long_chain() -> Any:
    conditions: Any = {"C0": {"Fn::Equals": ["a", "a"]}}
    for i in range(1, 900):
        conditions[f"C{i}"] = {"Fn::Not": [{"Condition": f"C{i - 1}"}]}
    return {"Conditions": conditions, "Resources": {"R": {**HANDLE, "Condition": "C899"}}}


@bomb
def conditions_that_all_resources_ask() -> Any:
    big = {"Fn::Or": [{"Fn::Equals": ["x" * 500, "y" * 500]}] * 10}
    conditions = {f"C{i}": big for i in range(60)}
    ask = nested(60, "end", lambda one: one)
    for i in range(60):
        ask = {"Fn::If": [f"C{i}", "no", ask]} if i < 40 else ask
    resources = {f"R{i}": {"Type": DATA, "Properties": {"Analytics": ask}} for i in range(80)}
    return {"Conditions": conditions, "Resources": resources}


@bomb
def resources_in_a_circle() -> Any:
    return {"Resources": {"A": {**HANDLE, "DependsOn": "B"}, "B": {**HANDLE, "DependsOn": ["A"]}}}


@bomb
def resources_that_all_depend() -> Any:
    names = [f"R{i}" for i in range(150)]
    return {
        "Resources": {
            name: {**HANDLE, "DependsOn": names[max(0, i - 60) : i]} for i, name in enumerate(names)
        }
    }


@bomb
def rules_that_say_nothing() -> Any:
    return {"Rules": {"R": {"Assertions": 7}}, "Resources": {"R": HANDLE}}


# --- AWS's quotas -----------------------------------------------------------------------------


@bomb
def resources_501() -> Any:
    return {"Resources": {f"R{i}": HANDLE for i in range(501)}}


@bomb
def parameters_201() -> Any:
    parameters = {f"P{i}": {"Type": "String", "Default": "x"} for i in range(201)}
    return {"Parameters": parameters, "Resources": {"R": HANDLE}}


@bomb
def outputs_201() -> Any:
    return {"Outputs": {f"O{i}": {"Value": "x"} for i in range(201)}, "Resources": {"R": HANDLE}}


@bomb
def mappings_201() -> Any:
    return {
        "Mappings": {f"M{i}": {"a": {"b": "c"}} for i in range(201)},
        "Resources": {"R": HANDLE},
    }


@bomb
def mapping_attributes_201() -> Any:
    mapping = {f"a{i}": {"b": "c"} for i in range(201)}
    return {"Mappings": {"M": mapping}, "Resources": {"R": HANDLE}}


@bomb
def a_name_of_256() -> Any:
    return {"Resources": {"R" * 256: HANDLE}}


@bomb
def a_description_of_1_025() -> Any:
    return {"Description": "x" * 1025, "Resources": {"R": HANDLE}}


@bomb
def a_default_of_4_097() -> Any:
    return holding("x", Parameters={"P": {"Type": "String", "Default": "x" * 4097}})


@bomb
def a_body_of_51_201() -> Any:
    body = json.dumps({"Resources": {"R": HANDLE}})
    return body + " " * (51_201 - len(body))


@bomb
def a_file_of_1_000_001() -> Any:
    body = json.dumps({"Resources": {"R": HANDLE}})
    return body + " " * (1_000_001 - len(body))


@bomb
def a_file_of_1_000_000() -> Any:
    data = {f"R{i}": {"Type": DATA, "Properties": {"Analytics": "x" * 9900}} for i in range(100)}
    body = json.dumps({"Resources": data})
    return body + " " * (1_000_000 - len(body))


@bomb
def properties_that_swell_together() -> Any:
    value = nested(6, "x" * 10, lambda inner: {"Fn::Join": [inner, [""] * 7]})
    return {
        "Resources": {
            f"R{i}": {"Type": DATA, "Properties": {"Analytics": value}} for i in range(100)
        }
    }


# --- nonsense ---------------------------------------------------------------------------------

FUNCTIONS = [
    "Ref", "Condition", "Fn::GetAtt", "Fn::Join", "Fn::Sub", "Fn::Select", "Fn::Split", "Fn::If", "Fn::Equals",
    "Fn::And", "Fn::Or", "Fn::Not", "Fn::Contains", "Fn::ImportValue", "Fn::FindInMap", "Fn::Base64",
    "Fn::GetAZs", "Fn::Cidr", "Fn::ToJsonString", "Fn::Length", "Fn::Nonsense",
]  # fmt: skip


def nonsense(count: int, seed: int = 5) -> list[dict[str, Any]]:
    """Return templates of functions with arguments of every shape, in every section."""
    chance = random.Random(seed)

    def value(depth: int) -> Any:
        if depth > 3 or chance.random() < 0.3:
            return chance.choice(
                ["", "a", "P", "M", "C", "AWS::Region", "AWS::NoValue", "a,b", 0, -1, 7, 1.5, True, "${P}", "R.Arn",
                 "10.0.0.0/8", "{{resolve:ssm:p}}", "9" * 30]
            )  # fmt: skip
        if chance.random() < 0.3:
            return [value(depth + 1) for _ in range(chance.randint(0, 4))]
        if chance.random() < 0.15:
            return {chance.choice("ab"): value(depth + 1) for _ in range(2)}
        return {chance.choice(FUNCTIONS): value(depth + 1)}

    def template() -> dict[str, Any]:
        made = {
            "Parameters": {"P": {"Type": "String", "Default": "x"}},
            "Mappings": {"M": {"a": {"b": "c"}}},
            "Conditions": {"C": {"Fn::Equals": ["a", "a"]}},
            "Resources": {"R": {"Type": DATA, "Properties": {"Analytics": value(0)}}},
            "Outputs": {"O": {"Value": value(2)}},
        }
        for section in ("Conditions", "Rules", "Mappings", "Parameters", "Outputs"):
            if chance.random() < 0.15:
                made[section] = chance.choice([{"X": value(1)}, value(1)])
        if chance.random() < 0.2:
            made["Resources"]["R"][chance.choice(["DependsOn", "Condition", "Properties"])] = value(
                2
            )
        return made

    return [template() for _ in range(count)]


# --- throwing them ----------------------------------------------------------------------------


def send(cfn: Any, name: str, template: Any, s3: Any) -> str:
    """Make a stack of a template and delete it again; return what was said on the way."""
    body = template if isinstance(template, str) else json.dumps(template)
    how: dict[str, Any] = {"TemplateBody": body}
    if name.startswith("a_file") or (not name.startswith("a_body") and len(body) > 51_200):
        s3.put_object(Bucket="templates", Key="t", Body=body.encode("utf-8", "surrogatepass"))
        how = {"TemplateURL": URL}
    try:
        cfn.create_stack(StackName="bomb", **how)
    except ClientError as error:
        return f"{error.response['Error']['Code']}: {error.response['Error']['Message']}"
    made = settled(cfn, "bomb")
    reasons = [
        event["ResourceStatusReason"]
        for page in cfn.get_paginator("describe_stack_events").paginate(StackName="bomb")
        for event in page["StackEvents"]
        if event["ResourceStatus"].endswith("FAILED")
    ]
    cfn.delete_stack(StackName=made["StackId"])
    gone = settled(cfn, made["StackId"])["StackStatus"]
    assert gone == "DELETE_COMPLETE", gone
    return f"{made['StackStatus']}: {' '.join(reasons)}"


def settled(cfn: Any, name: str) -> dict[str, Any]:
    while True:
        stack = cfn.describe_stacks(StackName=name)["Stacks"][0]
        if not stack["StackStatus"].endswith("IN_PROGRESS"):
            return stack
        time.sleep(0.02)


def peak_memory_mib() -> int:
    """Return the most memory that this program has had. Not `ru_maxrss`: at its start that is its parent's."""
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) >> 10


def main(data_dir: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    with InProcessCloud(Path(data_dir)) as cloud:
        cfn, s3 = cloud.client("cloudformation"), cloud.client("s3")
        s3.create_bucket(Bucket="templates")
        value = "{{resolve:ssm:itself}}"
        cloud.client("ssm").put_parameter(Name="itself", Value=value, Type="String")
        said = ""
        for name, make in [*BOMBS.items(), ("nonsense", lambda: nonsense(60))]:
            began = time.monotonic()
            if name == "nonsense":
                answers = [send(cfn, name, template, s3) for template in make()]
                said = " ".join(a for a in answers if "Internal" in a) or f"{len(answers)} answers"
            else:
                said = send(cfn, name, make(), s3)
            row = {
                "bomb": name,
                "said": said[:600],
                "seconds": time.monotonic() - began,
                "memory_mib": peak_memory_mib(),
            }
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
