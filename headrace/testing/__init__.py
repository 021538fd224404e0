"""Tests of AWS streaming pipelines: clouds in process, hostile streams, an oracle of convergence, simulation.

    import headrace.testing

    with headrace.testing.cloud():
        boto3.client("kinesis").create_stream(StreamName="orders", ShardCount=1)

Tutorial: docs/testing.md. The pytest plug-in is `headrace.testing.plugin`; pytest finds it by itself. A name's module
is imported when the name is first used, because pytest imports this package in every run.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.testing.clouds import LocalCloud as LocalCloud
    from headrace.testing.clouds import cloud as cloud
    from headrace.testing.convergence import HandlerPipeline as HandlerPipeline
    from headrace.testing.convergence import NotConverged as NotConverged
    from headrace.testing.convergence import NothingProcessed as NothingProcessed
    from headrace.testing.convergence import assert_converges as assert_converges
    from headrace.testing.guard import AwsUnreachable as AwsUnreachable
    from headrace.testing.handlers import FunctionNotLoadable as FunctionNotLoadable
    from headrace.testing.simulated.entering import simulation as simulation
    from headrace.testing.simulated.world import CALM as CALM
    from headrace.testing.simulated.world import ROUGH as ROUGH
    from headrace.testing.simulated.world import Chances as Chances
    from headrace.testing.waiting import NotInTime as NotInTime
    from headrace.testing.waiting import Record as Record
    from headrace.testing.waiting import RecordsExpired as RecordsExpired
    from headrace.testing.waiting import RecordsLost as RecordsLost
    from headrace.testing.waiting import objects_under as objects_under
    from headrace.testing.waiting import records_of as records_of
    from headrace.testing.waiting import until as until
    from headrace.testing.waiting import until_drained as until_drained

_HOME = {
    "HandlerPipeline": "convergence",
    "NotConverged": "convergence",
    "NothingProcessed": "convergence",
    "assert_converges": "convergence",
    "CALM": "simulated.world",
    "Chances": "simulated.world",
    "ROUGH": "simulated.world",
    "simulation": "simulated.entering",
    "AwsUnreachable": "guard",
    "FunctionNotLoadable": "handlers",
    "LocalCloud": "clouds",
    "NotInTime": "waiting",
    "Record": "waiting",
    "RecordsExpired": "waiting",
    "RecordsLost": "waiting",
    "cloud": "clouds",
    "objects_under": "waiting",
    "records_of": "waiting",
    "until": "waiting",
    "until_drained": "waiting",
}
# Half a million objects come with these; the collector would look at them again for every few clouds.
_WITH_A_CLOUD = frozenset({"clouds", "simulated.entering"})
__all__ = list(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"headrace.testing has no {name}; it has {', '.join(_HOME)}")
    module = f"headrace.testing.{home}"
    if module not in sys.modules and home in _WITH_A_CLOUD:
        from headrace.store.memory import import_to_stay

        import_to_stay(module)
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOME]
