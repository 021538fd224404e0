"""Where another cloud is known to differ from AWS: which test shows it, by which words, and what the difference is.

A test that is listed must fail, with a failure in which `words` (a pattern) are found: any other failure counts, and a
difference that has gone fails the run until its line is removed. So the table stays true.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """A known difference: the pattern of the failure that shows it, and what is different, for people."""

    words: str
    what: str


SAME, DIFFERS, GONE, BROKEN = "same", "differs", "gone", "broken"


def verdict(known: Difference | None, error: BaseException | None) -> str:
    """Judge a test by what is known and what it failed with: as AWS, as listed, listed in vain, or wrong otherwise."""
    if error is None:
        return SAME if known is None else GONE
    if known is not None and re.search(known.words, f"{type(error).__name__}: {error}"):
        return DIFFERS
    return BROKEN


# One line a difference: by product, then by test.
DIFFERENCES: dict[str, dict[str, Difference]] = {
    # Evidence: runs of these tests on LocalStack 4.9.2 (`scripts/localstack`), 2026-11-22, and its source.
    "localstack": {
        "test_poison_is_set_aside_alone_and_its_neighbours_arrive_once": Difference(
            r"10 records behind the function: not within",
            "BisectBatchOnFunctionError has no effect: what follows a poison record goes to the failure queue too",
        ),
        "test_a_batch_that_always_fails_is_halved_down_to_its_records": Difference(
            r"assert \[4\] == \[1, 1, 1, 1\]", "BisectBatchOnFunctionError has no effect"
        ),
        "test_a_split_under_way_repeats_nothing_and_loses_nothing": Difference(
            r"AssertionError: assert \{'key-",
            "after a split the function gets the old shard's records again and again",
        ),
        "test_calls_within_the_interval_share_an_object": Difference(
            r"assert 2 == 1", "Firehose does not buffer: each call is an object"
        ),
        "test_objects_are_compressed_as_asked": Difference(
            r"the object is not compressed", "CompressionFormat has no effect"
        ),
        "test_a_prefixs_expressions_become_the_time": Difference(
            r"year=!\{timestamp:yyyy\}/", "expressions of a prefix stay as text"
        ),
        "test_a_stream_is_delivered_from_its_first_new_record_on": Difference(
            r"CREATING_FAILED|delivery stream \S+ is ACTIVE: not within",
            "a Kinesis source needs a Java program that is downloaded",
        ),
        "test_a_step_that_succeeds_is_completed": Difference(
            r"the end of step \S+ not within",
            "the open edition has no EMR; moto behind its gateway runs no step",
        ),
        "test_a_step_that_fails_is_failed": Difference(
            r"the end of step \S+ not within",
            "the open edition has no EMR; moto behind its gateway runs no step",
        ),
        "test_a_streams_properties_are_those_of_the_template": Difference(
            r"assert 24 == 48", "RetentionPeriodHours of a template has no effect"
        ),
        "test_an_update_changes_what_is_there_and_keeps_its_records": Difference(
            r"assert 24 == 72", "RetentionPeriodHours of a template has no effect"
        ),
        "test_an_update_that_fails_is_rolled_back": Difference(
            r"== 'UPDATE_ROLLBACK_COMPLETE'", "an update that fails is not rolled back"
        ),
        "test_a_creation_that_fails_leaves_nothing_behind": Difference(
            r"== 'ROLLBACK_COMPLETE'", "a creation that fails is not rolled back"
        ),
        "test_a_type_that_aws_has_not_is_refused": Difference(
            r"DID NOT RAISE", "a type that there is not is created, as nothing"
        ),
    },
    # Evidence: runs of these tests on moto 5.2.5's server, 2026-11-22.
    "moto": {
        "test_a_function_sees_every_record_once_and_in_order": Difference(
            r"200 records behind the function: not within", "without Docker no function runs"
        ),
        "test_poison_is_set_aside_alone_and_its_neighbours_arrive_once": Difference(
            r"a report in the failure queue: not within", "without Docker no function runs"
        ),
        "test_a_batch_that_always_fails_is_halved_down_to_its_records": Difference(
            r"the reports of four records: not within", "without Docker no function runs"
        ),
        "test_a_filter_keeps_records_from_the_function": Difference(
            r"2 records behind the function: not within", "without Docker no function runs"
        ),
        "test_a_split_under_way_repeats_nothing_and_loses_nothing": Difference(
            r"16 records behind the function: not within", "without Docker no function runs"
        ),
        "test_a_split_keeps_what_was_put_and_the_order_of_keys": Difference(
            r"assert \{'shardId-000000000000'\} ==",
            "after a split new records go to the closed parent",
        ),
        "test_a_merge_keeps_what_was_put_and_the_order_of_keys": Difference(
            r"AssertionError: assert \{'key-", "a merge does not keep the order of keys"
        ),
        "test_a_closed_shard_ends_with_no_iterator_and_names_its_children": Difference(
            r"the closed shard never ends", "a closed shard never ends"
        ),
        "test_calls_within_the_interval_share_an_object": Difference(
            r"assert 2 == 1", "Firehose does not buffer: each call is an object"
        ),
        "test_objects_are_compressed_as_asked": Difference(
            r"the object is not compressed", "CompressionFormat has no effect on direct puts"
        ),
        "test_a_prefixs_expressions_become_the_time": Difference(
            r"year=!\{timestamp:yyyy\}/", "expressions of a prefix stay as text"
        ),
        "test_a_stream_is_delivered_from_its_first_new_record_on": Difference(
            r"the last record in S3: not within", "Firehose does not read its Kinesis source"
        ),
        "test_a_step_that_succeeds_is_completed": Difference(
            r"the end of step \S+ not within", "steps do not run"
        ),
        "test_a_step_that_fails_is_failed": Difference(
            r"the end of step \S+ not within", "steps do not run"
        ),
        "test_an_update_that_fails_is_rolled_back": Difference(
            r"ResponseParserError", "an update that fails answers 500 without XML"
        ),
        "test_a_creation_that_fails_leaves_nothing_behind": Difference(
            r"ResponseParserError", "a creation that fails answers 500 without XML"
        ),
        "test_a_type_that_aws_has_not_is_refused": Difference(
            r"DID NOT RAISE", "a type that there is not is left out"
        ),
    },
    # Evidence: runs of these tests on ministack 1.5.33, 2026-11-22.
    "ministack": {
        "test_a_split_keeps_what_was_put_and_the_order_of_keys": Difference(
            r"AssertionError: assert \{'key-", "a split deletes the parent shard with its records"
        ),
        "test_a_merge_keeps_what_was_put_and_the_order_of_keys": Difference(
            r"AssertionError: assert \{'key-", "a merge deletes both parents with their records"
        ),
        "test_a_closed_shard_ends_with_no_iterator_and_names_its_children": Difference(
            r"ResourceNotFoundException.*Shard \S+ not found", "a closed shard cannot be read"
        ),
        "test_poison_is_set_aside_alone_and_its_neighbours_arrive_once": Difference(
            r"a report in the failure queue: not within",
            "MaximumRetryAttempts, batchItemFailures and OnFailure have no effect: a poison record blocks its shard",
        ),
        "test_a_batch_that_always_fails_is_halved_down_to_its_records": Difference(
            r"the reports of four records: not within",
            "BisectBatchOnFunctionError and OnFailure have no effect",
        ),
        "test_a_split_under_way_repeats_nothing_and_loses_nothing": Difference(
            r"32 records behind the function: not within",
            "after a split a function does not get what the new shards hold",
        ),
        "test_calls_within_the_interval_share_an_object": Difference(
            r"assert 20 == 1", "Firehose does not buffer: each record is an object of its own"
        ),
        "test_objects_are_compressed_as_asked": Difference(
            r"the object is not compressed", "CompressionFormat has no effect"
        ),
        "test_a_stream_is_delivered_from_its_first_new_record_on": Difference(
            r"the last record in S3: not within|AssertionError: assert b'1",
            "each record is an object of its own, under names that do not keep their order",
        ),
        "test_a_step_that_fails_is_failed": Difference(
            r"assert 'COMPLETED' == 'FAILED'", "steps do not run, and all are COMPLETED"
        ),
        "test_an_update_that_fails_is_rolled_back": Difference(
            r"assert 'UPDATE_COMPLETE' == 'UPDATE_ROLLBACK_COMPLETE'",
            "a stream whose name is taken is created over the other; the update succeeds",
        ),
        "test_a_creation_that_fails_leaves_nothing_behind": Difference(
            r"assert 'CREATE_COMPLETE' == 'ROLLBACK_COMPLETE'",
            "a stream whose name is taken is created over the other; the stack succeeds",
        ),
    },
}
