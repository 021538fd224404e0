r"""Parses Java's regular expressions and writes them for RE2 and for the `regex` module.

AWS is written in Java: the patterns of its models and CloudFormation's AllowedPattern follow java.util.regex. This
package translates the syntax that differs from Python's and RE2's: nested and intersected classes, `\Q..\E`, `\uXXXX`
(surrogate pairs too), `\p{Alpha}` and its kin, `\h`, `\v`, `\R`, what `.` and `\s` match, possessive repeats. A pattern
is always meant to match a whole text. Pure functions; the length of a pattern is bounded by the caller.

Source: https://docs.oracle.com/en/java/javase/17/docs/api/java.base/java/util/regex/Pattern.html (documented); the
table in tests/unit/core/test_java_regex.py was observed with Java 17.
"""

from headrace.core.java_regex.nodes import BadPattern, Node, NotLinear
from headrace.core.java_regex.parser import parse
from headrace.core.java_regex.writer import as_one_run, for_backtracking, for_re2

__all__ = [
    "BadPattern",
    "Node",
    "NotLinear",
    "as_one_run",
    "for_backtracking",
    "for_re2",
    "parse",
]
