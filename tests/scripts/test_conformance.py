"""The conformance table is about the whole model, names tests that exist, and says so when it does not."""

from __future__ import annotations

from scripts import conformance

SEEN = {
    "PutRecord": {
        "protocols": {"JSON": None, "CBOR": None},
        "tests": {"api/kinesis/test_put_record.py::test_a": None},
        "parameters": {
            "Data": {"accepted": {"f::test_a": None, "f::test_b": None, "f::test_c": None}, "refused": {}}
        },
        "errors": {
            "ValidationException": {
                "sentences": {"1 validation error detected: Value 'a|b' at …": None},
                "tests": {"f::test_a": None},
            },
            "OddException": {"sentences": {"Odd.": None}, "tests": {"f::test_a": None}},
        },
        "answers": {"ShardId": None},
    }
}  # fmt: skip


def test_the_page_that_is_checked_in_is_whole():
    assert conformance.stale(conformance.PAGE.read_text()) == []


def test_what_tests_showed_is_told_with_its_source():
    text = conformance.page(SEEN)
    assert "| **`Data`** | enforced | `test_a`, `test_b` and 1 more | none |" in text
    assert (
        "| ValidationException | documented (common errors) | 1 validation error detected: Value 'a\\|b'"
        " at … *observed (kinesalite)* | `test_a` |"
    ) in text
    assert "| OddException | assumed | Odd. *assumed* | `test_a` |" in text
    assert "not seen: `SequenceNumber`, `EncryptionType`" in text
    assert "| [PutRecord](#putrecord) | 1 |" in text
    assert "*stored*" in text
    assert "| **`KeyId`** | stored | none | none |" in text


def test_what_the_page_lacks_is_named():
    text = conformance.PAGE.read_text()
    gone = text.replace("| `StreamARN` |", "| `Other` |").replace("## SplitShard", "## SplitAtom")
    gone = gone.replace("## SplitAtom\n", "## SplitAtom\n\n`test_that_nobody_wrote`\n")
    wrong = conformance.stale(gone)
    assert "the list of scenarios is old" not in wrong
    assert "the list of scenarios is old" in conformance.stale(gone + "- another\n")
    assert "SplitShard is missing" in wrong
    assert "SplitAtom is no action" in wrong
    assert "PutRecords: `StreamARN` is missing" in wrong
    assert "the test test_that_nobody_wrote is gone" in wrong
