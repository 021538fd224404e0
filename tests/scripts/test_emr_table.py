"""docs/emr.md says what the table of releases says."""

from headrace.spark_submit.emr_releases import LOOKED_UP, releases
from scripts.emr_table import PAGE, with_table


def test_the_page_has_the_table_of_releases() -> None:
    text = PAGE.read_text()
    # python -m scripts.emr_table
    assert text == with_table(text)
    assert all(f"[{release.label}]" in text for release in releases())
    assert LOOKED_UP.startswith("2026-11"), "docs/emr.md says November 2026"
