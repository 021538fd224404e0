"""EventBridge's patterns: one engine for rules, archives, pipes and the filters of Lambda's mappings.

The algorithm is that of AWS's library event-ruler (documented: https://github.com/aws/event-ruler, README and
`JsonRuleCompiler`): a pattern becomes alternatives, each a matcher list for each dotted path; an event becomes its
leaves, and leaves of one array must come from one of its elements. `headrace/core/event_patterns/compiling.py` checks
and compiles, `headrace/core/event_patterns/matching.py` matches.
"""

from __future__ import annotations

from headrace.core.event_patterns.compiling import compile_pattern
from headrace.core.event_patterns.matching import matches_event, matches_payload
from headrace.core.event_patterns.tokens import BadEventPattern

__all__ = ["BadEventPattern", "compile_pattern", "matches_event", "matches_payload"]
