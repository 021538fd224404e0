"""Drift of properties that the read answer does not have: calls of their own show them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.api.cloudformation.test_declared import detect, drifts
from tests.api.cloudformation.test_stacks import create, physical
from tests.support.cloud import InProcessCloud


def policy(action: str) -> dict[str, Any]:
    allowed = {"Effect": "Allow", "Action": action, "Resource": "*"}
    return {"Version": "2012-10-17", "Statement": [allowed]}


READS, WRITES = policy("s3:GetObject"), policy("s3:PutObject")
INLINE = [{"PolicyName": "own", "PolicyDocument": READS}]
MANAGED = ["arn:aws:iam::aws:policy/ReadOnlyAccess"]
TRUST = policy("sts:AssumeRole") | {
    "Statement": [
        {
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"Service": "lambda.amazonaws.com"},
        }
    ]
}
SELECTORS = [{"ReadWriteType": "WriteOnly"}]
QUERY = {
    "ResourceTypeFilters": ["AWS::AllSupported"],
    "TagFilters": [{"Key": "a", "Values": ["b"]}],
}
DOCUMENT = {"schemaVersion": "2.2", "description": "one", "mainSteps": []}
PROPERTIES: dict[tuple[str, str], dict[str, Any]] = {
    ("Role", "IAM::Role"): {"AssumeRolePolicyDocument": TRUST, "Policies": INLINE},
    ("Other", "IAM::Policy"): {
        "PolicyName": "of-another", "PolicyDocument": READS, "Roles": [{"Ref": "Role"}],
    },
    ("Managed", "IAM::ManagedPolicy"): {"PolicyDocument": READS, "Roles": [{"Ref": "Role"}]},
    ("Group", "IAM::Group"): {"Policies": INLINE, "ManagedPolicyArns": MANAGED},
    ("User", "IAM::User"): {
        "Policies": INLINE, "ManagedPolicyArns": MANAGED, "Groups": [{"Ref": "Group"}],
    },
    ("Profile", "IAM::InstanceProfile"): {"Roles": [{"Ref": "Role"}]},
    ("First", "KMS::Key"): {},
    ("Second", "KMS::Key"): {},
    ("Alias", "KMS::Alias"): {"AliasName": "alias/named", "TargetKeyId": {"Ref": "First"}},
    ("Document", "SSM::Document"): {"Content": DOCUMENT, "DocumentType": "Command"},
    ("Bucket", "S3::Bucket"): {"BucketName": "trailed"},
    ("Trail", "CloudTrail::Trail"): {
        "IsLogging": True, "S3BucketName": {"Ref": "Bucket"}, "EventSelectors": SELECTORS,
    },
    ("Tagged", "ResourceGroups::Group"): {
        "Name": "tagged", "ResourceQuery": {"Type": "TAG_FILTERS_1_0", "Query": QUERY},
    },
}  # fmt: skip
TEMPLATE = {
    "Resources": {
        name: {"Type": f"AWS::{kind}", "Properties": given}
        for (name, kind), given in PROPERTIES.items()
    }
}


def change_by_hand(cloud: InProcessCloud, cfn: Any) -> None:
    """Change what no read of the resource itself shows."""
    iam, trail = cloud.client("iam"), cloud.client("cloudtrail")
    role, group, user, managed = (
        physical(cfn, name, "more") for name in ("Role", "Group", "User", "Managed")
    )
    iam.put_role_policy(RoleName=role, PolicyName="own", PolicyDocument=json.dumps(WRITES))
    iam.put_group_policy(GroupName=group, PolicyName="own", PolicyDocument=json.dumps(WRITES))
    iam.detach_group_policy(GroupName=group, PolicyArn=MANAGED[0])
    iam.delete_user_policy(UserName=user, PolicyName="own")
    iam.remove_user_from_group(GroupName=group, UserName=user)
    iam.create_policy_version(
        PolicyArn=managed, PolicyDocument=json.dumps(WRITES), SetAsDefault=True
    )
    iam.detach_role_policy(RoleName=role, PolicyArn=managed)
    iam.remove_role_from_instance_profile(
        InstanceProfileName=physical(cfn, "Profile", "more"), RoleName=role
    )
    cloud.client("kms").update_alias(
        AliasName="alias/named", TargetKeyId=physical(cfn, "Second", "more")
    )
    changed = json.dumps({**DOCUMENT, "description": "two"})
    ssm, document = cloud.client("ssm"), physical(cfn, "Document", "more")
    ssm.update_document(Name=document, Content=changed, DocumentVersion="$LATEST")
    ssm.update_document_default_version(Name=document, DocumentVersion="2")
    trail.stop_logging(Name=physical(cfn, "Trail", "more"))
    trail.put_event_selectors(
        TrailName=physical(cfn, "Trail", "more"), EventSelectors=[{"ReadWriteType": "ReadOnly"}]
    )
    query = {"Type": "TAG_FILTERS_1_0", "Query": json.dumps(QUERY).replace('"b"', '"c"')}
    cloud.client("resource-groups").update_group_query(GroupName="tagged", ResourceQuery=query)


def test_what_was_changed_by_hand_is_found(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        cfn = cloud.client("cloudformation")
        assert (
            create(cfn, TEMPLATE, "more", Capabilities=["CAPABILITY_NAMED_IAM"])
            == "CREATE_COMPLETE"
        )
        detect(cfn, "more")
        assert drifts(cfn, "more", "MODIFIED", "DELETED") == {}
        change_by_hand(cloud, cfn)
        detect(cfn, "more")
        found = {
            name: sorted(each["PropertyPath"] for each in drift["PropertyDifferences"])
            for name, drift in drifts(cfn, "more", "MODIFIED").items()
        }
    action = "Statement/0/Action"
    assert found == {
        "Role": [f"/Policies/0/PolicyDocument/{action}"],
        "Managed": [f"/PolicyDocument/{action}", "/Roles/0"],
        "Group": ["/ManagedPolicyArns/0", f"/Policies/0/PolicyDocument/{action}"],
        "User": ["/Groups/0", "/Policies/0"],
        "Profile": ["/Roles/0"],
        "Alias": ["/TargetKeyId"],
        "Document": ["/Content/description"],
        "Trail": ["/EventSelectors/0/ReadWriteType", "/IsLogging"],
        "Tagged": ["/ResourceQuery/Query/TagFilters/0/Values/0"],
    }
