"""Parameters: how large they may be (observed sentences; documented tiers: "Managing parameter tiers")."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import MotoLab


def put(lab: MotoLab, length: int, **more: Any) -> None:
    lab.client("ssm").put_parameter(
        Name="/p", Value="x" * length, Type="String", Overwrite=True, **more
    )


def tier(lab: MotoLab) -> str:
    return lab.client("ssm").describe_parameters()["Parameters"][0]["Tier"]


@pytest.mark.parametrize(
    ("length", "more", "sentence"),
    [
        (
            4097,
            {},
            "Standard tier parameters support a maximum parameter value of 4096 characters.",
        ),
        (4097, {"Tier": "Standard"}, "upgrade the parameter to use the advanced-parameter tier"),
        (
            8193,
            {"Tier": "Advanced"},
            "Advanced tier parameters support a maximum parameter value of 8192",
        ),
        (8193, {"Tier": "Intelligent-Tiering"}, "Advanced tier parameters support a maximum"),
    ],
)
def test_a_value_that_is_too_long_is_refused(
    lab: MotoLab, length: int, more: dict[str, str], sentence: str
):
    with pytest.raises(ClientError) as caught:
        put(lab, length, **more)
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert sentence in caught.value.response["Error"]["Message"]
    assert lab.client("ssm").describe_parameters()["Parameters"] == []


@pytest.mark.parametrize(
    ("length", "more", "kept_in"),
    [
        (4096, {}, "Standard"),
        (8192, {"Tier": "Advanced"}, "Advanced"),
        (4096, {"Tier": "Intelligent-Tiering"}, "Standard"),
        (4097, {"Tier": "Intelligent-Tiering"}, "Advanced"),
    ],
)
def test_a_value_that_fits_is_taken(lab: MotoLab, length: int, more: dict[str, str], kept_in: str):
    put(lab, length, **more)
    lab.restart()
    assert tier(lab) == kept_in
    assert len(lab.client("ssm").get_parameter(Name="/p")["Parameter"]["Value"]) == length


def test_an_advanced_parameter_stays_one(lab: MotoLab):
    put(lab, 10, Tier="Advanced")
    lab.restart()
    put(lab, 5000)
    assert tier(lab) == "Advanced"


def test_versions_are_a_hundred_and_go_on_counting(lab: MotoLab):
    ssm = lab.client("ssm")
    for n in range(103):
        ssm.put_parameter(Name="/v", Value=str(n), Type="String", Overwrite=True)
    lab.restart()
    assert ssm.get_parameter(Name="/v")["Parameter"]["Version"] == 103
    from moto.ssm.models import ssm_backends

    assert len(ssm_backends["000000000000"]["us-east-1"]._parameters["/v"]) == 100
    # One row, replaced a hundred times.
    assert lab.database.query("SELECT count(*) FROM fallback_rows") == [(1,)]


def test_ssm_does_not_bring_ec2_along(lab: MotoLab):
    program = (
        "import sys\n"
        "from headrace.aws.protocols.moto_imports import load_moto\n"
        "from headrace.composition.foundation import load_patches\n"
        "from headrace.moto.patching import patch_at_start, watch_imports\n"
        "PATCHES = load_patches()\n"
        "watch_imports(PATCHES)\n"
        "load_moto()\n"
        "patch_at_start(PATCHES)\n"
        "assert 'moto.ssm.models' in sys.modules\n"
        "assert not [name for name in sys.modules if name.startswith('moto.ec2')]\n"
        "import moto.ec2, moto.ssm.models\n"
        "assert moto.ssm.models.ec2_backends['000000000000']['us-east-1'].all_reservations() == []\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
