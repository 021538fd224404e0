from __future__ import annotations

from headrace.shards.loads import StreamLoad
from headrace.shards.policy import Decision, Split
from headrace.shards.scaling import Report
from tests.lambdas.folders import load_module
from tests.unit.shards.clock import OneClock
from tests.unit.shards.streams import load_of

HANDLER = load_module("autoscale", "handler")


class FakeScaler:
    """Takes `takes_s` for a step, in which it splits a shard."""

    def __init__(self, clock: OneClock, takes_s: float) -> None:
        self.at_s: list[float] = []
        self._clock, self._takes_s = clock, takes_s
        self._began_s = clock.monotonic_s()

    def step(self) -> Report:
        self.at_s.append(self._clock.monotonic_s() - self._began_s)
        self._clock.advance(self._takes_s)
        split = Split("shard-0", 5, "hot")
        return Report(load_of(1.0), Decision((split,)), (split,))


def steps_of(period_s: float, takes_s: float = 0.5) -> list[float]:
    clock = OneClock()
    scaler = FakeScaler(clock, takes_s)
    answer = HANDLER.run(scaler, clock, period_s, lambda report: None)
    assert answer["steps"] == len(answer["done"]) == len(scaler.at_s)
    return [round(at_s, 1) for at_s in scaler.at_s]


def test_a_period_of_a_minute_is_one_step() -> None:
    assert steps_of(60) == [0]


def test_a_short_period_is_several_steps_and_leaves_the_next_minute_to_the_next_invocation() -> (
    None
):
    assert steps_of(5) == [5.0 * i for i in range(12)]
    assert steps_of(20) == [0, 20, 40]


def test_slow_steps_end_with_the_minute_too() -> None:
    assert steps_of(5, takes_s=29) == [0, 29]


class FakeCloudWatch:
    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def put_metric_data(self, *, Namespace: str, MetricData: list[dict[str, object]]) -> None:
        assert Namespace == "N"
        self.values = {str(m["MetricName"]): m["Value"] for m in MetricData}  # type: ignore[misc]


def test_metrics_say_what_a_step_saw(monkeypatch) -> None:
    monkeypatch.setenv("METRICS", "N")
    monkeypatch.setenv("STREAM", "s")
    cloudwatch = FakeCloudWatch()
    load: StreamLoad = load_of(0.5, 0.25)
    HANDLER._put_metrics(cloudwatch, Report(load))
    assert cloudwatch.values == {
        "OpenShards": 2, "HottestShard": 50.0, "MeanUtilisation": 37.5, "Reshards": 0, "Advice": 0,
    }  # fmt: skip
    # A stream that is being changed was not measured.
    cloudwatch.values = {}
    HANDLER._put_metrics(cloudwatch, Report())
    assert cloudwatch.values == {}
