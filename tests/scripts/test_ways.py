"""The ways are counted right: a return is a file that is come back to, with a function not seen before."""

from __future__ import annotations

from scripts.ways import returns


def test_a_file_that_is_come_back_to_counts_once_a_time() -> None:
    there, back = [("a/x.py", "f"), ("a/y.py", "g")], [("a/x.py", "h"), ("a/y.py", "i")]
    assert returns(there, ("a/",)) == (0, there)
    assert returns(there + back, ("a/",)) == (2, there + back)


def test_a_function_counts_at_its_first_call_and_in_the_ways_folders_alone() -> None:
    calls = [("a/x.py", "f"), ("b/z.py", "g"), ("a/x.py", "h"), ("a/y.py", "i"), ("a/x.py", "f")]
    assert returns(calls, ("a/",)) == (0, [("a/x.py", "f"), ("a/x.py", "h"), ("a/y.py", "i")])
