"""Data catalogs: every account has Glue's, `AwsDataCatalog`, which nobody changes (documented: DataCatalog)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import ACCOUNT, MotoLab


def test_glues_catalog_is_there_and_cannot_be_changed(tmp_path: Path) -> None:
    with MotoLab(tmp_path / "moto") as lab:
        athena: Any = lab.client("athena")
        athena.create_data_catalog(
            Name="mine", Type="GLUE", Parameters={"catalog-id": "111111111111"}
        )
        listed = athena.list_data_catalogs()["DataCatalogsSummary"]
        assert [(one["CatalogName"], one["Type"], one["Status"]) for one in listed] == [
            ("AwsDataCatalog", "GLUE", "CREATE_COMPLETE"),
            ("mine", "GLUE", "CREATE_COMPLETE"),
        ]
        shown = athena.get_data_catalog(Name="awsdatacatalog")["DataCatalog"]
        assert shown["Parameters"] == {"catalog-id": ACCOUNT}
        for name in ("AwsDataCatalog", "gone"):
            for call, more in (
                (athena.delete_data_catalog, {}),
                (athena.update_data_catalog, {"Type": "GLUE"}),
            ):
                with pytest.raises(ClientError, match="InvalidRequestException"):
                    call(Name=name, **more)
        with pytest.raises(ClientError, match="was not found"):
            athena.get_data_catalog(Name="gone")
        with pytest.raises(ClientError):
            athena.create_data_catalog(Name="AwsDataCatalog", Type="GLUE")
        athena.delete_data_catalog(Name="mine")
        assert len(athena.list_data_catalogs()["DataCatalogsSummary"]) == 1


def test_what_glue_does_not_have_is_told_with_glues_code(tmp_path: Path) -> None:
    with MotoLab(tmp_path / "moto") as lab:
        athena: Any = lab.client("athena")
        lab.client("glue").create_database(DatabaseInput={"Name": "db"})
        named = {"CatalogName": "AwsDataCatalog", "DatabaseName": "none"}
        for call, members, sentence in (
            (athena.get_database, {}, "Database none not found."),
            (athena.list_table_metadata, {}, "Database none not found."),
            (athena.get_table_metadata, {"TableName": "t"}, "Database none not found."),
            (
                athena.get_table_metadata,
                {"DatabaseName": "db", "TableName": "t"},
                "Entity Not Found",
            ),
        ):
            with pytest.raises(ClientError) as refused:
                call(**{**named, **members})
            error = refused.value.response["Error"]
            assert error["Code"] == "MetadataException"
            assert error["Message"].startswith(f"{sentence} (Service: AmazonDataCatalog;")
            assert "; Error Code: EntityNotFoundException; Request ID: " in error["Message"]
