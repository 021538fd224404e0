"""The first request of a service loads what it needs: not moto's tables, other libraries, nor a description twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import moto.core.loaders as moto_loaders
import pytest

from tests.support.cloud import InProcessCloud
from tests.support.fresh_python import run_after

PATCHED = """
from headrace.composition.foundation import load_patches
from headrace.moto.patching import start_empty
start_empty(load_patches())
"""
TESTING = "import boto3\nfrom headrace.testing import cloud\n"
# What moto's tables and its regions say, as text.
TABLES = """
import json, sys
from moto.ec2.models import ec2_backends, instance_types as types
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.batch.models import EC2_INSTANCE_FAMILIES as families
from moto.eks.utils import Session
offerings = types.INSTANCE_TYPE_OFFERINGS
print(json.dumps({
    "types": {name: types.INSTANCE_TYPES[name] for name in types.INSTANCE_TYPES},
    "instances": [(one.name, one) for one in types.InstanceTypeBackend().instance_types],
    "families": ["c5" in families, "no-family" in families, len(families)],
    "offerings": {kind: {region: of[region] for region in of} for kind, of in offerings.items()},
    "missing": [offerings["region"].get("no-region"), "no-type" in types.INSTANCE_TYPES],
    "regions": [vars(region) for region in RegionsAndZonesBackend.regions],
    "partitions": Session().get_available_partitions(),
    "config": Session().get_available_regions("config"),
    "none": Session().get_available_regions("no-service"),
}, sort_keys=True))
"""


def test_tables_that_load_late_are_those_of_moto() -> None:
    assert run_after(PATCHED, TABLES) == run_after("", TABLES)


def test_the_first_requests_load_no_table_and_no_library_that_they_do_not_need() -> None:
    run_after(
        TESTING,
        "import json, sys\n"
        "with cloud():\n"
        "    boto3.client('sqs').list_queues()\n"
        "    import moto.utilities.utils as utils\n"
        "    loaded, load = [], utils.load_resource\n"
        "    utils.load_resource = lambda name: loaded.append(name) or load(name)\n"
        "    ec2 = boto3.client('ec2')\n"
        "    assert ec2.describe_vpcs()['Vpcs']\n"
        "    boto3.client('apigateway').create_rest_api(name='a')\n"
        "    unwanted = {'cryptography', 'openapi_spec_validator', 'responses'} & set(sys.modules)\n"
        "    assert not unwanted, unwanted\n"
        "    assert not [name for name in loaded if 'instance_type' in name], loaded\n"
        "    ec2.run_instances(ImageId='ami-12c6146b', MinCount=1, MaxCount=1, InstanceType='t3.nano')\n"
        "    assert ec2.describe_instance_type_offerings()['InstanceTypeOfferings']\n"
        "    (region,) = [name for name in loaded if 'instance_type' in name]\n"
        "    assert region.endswith('offerings/region/us-east-1.json'), region\n",
    )


def test_key_pairs_are_read_by_the_library_that_comes_late(tmp_path: Path) -> None:
    with InProcessCloud(tmp_path / "data") as cloud:
        ec2: Any = cloud.client("ec2")
        for kind in ("rsa", "ed25519"):
            made = ec2.create_key_pair(KeyName=kind, KeyType=kind)
            assert "PRIVATE KEY" in made["KeyMaterial"]
            (shown,) = ec2.describe_key_pairs(KeyNames=[kind], IncludePublicKey=True)["KeyPairs"]
            key = shown["PublicKey"].encode()
            ec2.import_key_pair(KeyName=f"{kind}-again", PublicKeyMaterial=key)
            (imported,) = ec2.describe_key_pairs(KeyNames=[f"{kind}-again"])["KeyPairs"]
            assert imported["KeyType"] == kind


def test_a_service_s_first_request_makes_no_other_account_s_state() -> None:
    run_after(
        TESTING,
        "with cloud():\n"
        "    boto3.client('ec2').describe_vpcs()\n"
        "    from moto.ec2.models import ec2_backends\n"
        "    assert list(ec2_backends) == ['000000000000'], list(ec2_backends)\n",
    )


def without_documentation(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_documentation(v) for k, v in value.items() if k != "documentation"}
    return [without_documentation(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("service", ["ec2", "s3", "sqs", "cloudfront", "route53", "s3control"])
def test_descriptions_with_moto_s_additions_are_those_that_moto_would_load(service: str) -> None:
    import moto.core.utils

    from headrace.aws.calls.operation import service_description
    from headrace.aws.protocols.moto_imports import load_moto

    load_moto()
    before = without_documentation(service_description(service))
    loaded = vars(moto.core.utils)["create_loader"]().load_service_model(service, "service-2")
    own = moto_loaders.create_loader().load_service_model(service, "service-2")
    assert without_documentation(loaded) == without_documentation(own) != before
    assert without_documentation(service_description(service)) == before


def test_names_of_xml_are_checked_once_and_refused_as_before() -> None:
    run_after(
        PATCHED,
        "import xmltodict\n"
        "for _ in range(2):\n"
        "    text = xmltodict.unparse({'a': {'b': ['1', '2']}}, full_document=False)\n"
        "    assert text == '<a><b>1</b><b>2</b></a>'\n"
        "assert xmltodict._validate_name.cache_info().hits\n"
        "for _ in range(2):\n"
        "    try: xmltodict.unparse({'a': {'b c': '1'}})\n"
        "    except ValueError as error: assert 'whitespace' in str(error)\n"
        "    else: raise AssertionError\n",
    )
