"""The schedule of workers, stepped by hand: whose turn it is, after any course of wakes, stops, failures and time."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.core.workers import LONGEST_BACKOFF_S, Schedule, ScheduleEntry, Stage


class Scheduled(RuleBasedStateMachine):
    """Any number of workers, threads that take and return them at will, and a clock that goes on as it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule: Schedule[ScheduleEntry] = Schedule()
        self.now_s = 1000.0
        self.turns: list[ScheduleEntry] = []
        self.running: list[ScheduleEntry] = []
        # What must happen: those that owe a step now, and when the others' time comes.
        self.owed: list[ScheduleEntry] = []
        self.due_s: dict[ScheduleEntry, float] = {}
        self.woken: set[ScheduleEntry] = set()
        self.failures: Counter[ScheduleEntry] = Counter()

    @initialize()
    def begin(self) -> None:
        self.add()

    @rule()
    def add(self) -> None:
        turn = ScheduleEntry()
        self.schedule.add(turn)
        self.turns.append(turn)
        self.owed.append(turn)

    @rule(data=st.data())
    def wake(self, data: st.DataObject) -> None:
        turn = data.draw(st.sampled_from(self.turns))
        self.schedule.wake(turn)
        if turn in self.running:
            self.woken.add(turn)
        elif turn in self.due_s and not self.failures[turn]:
            del self.due_s[turn]
            self.owed.append(turn)

    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        turn = data.draw(st.sampled_from(self.turns))
        self.schedule.stop(turn)
        if turn in self.owed:
            self.owed.remove(turn)
        self.due_s.pop(turn, None)
        assert (turn.stage is Stage.ENDED) == (turn not in self.running)

    @rule()
    def take(self) -> None:
        turn = self.schedule.next()
        assert turn is (self.owed.pop(0) if self.owed else None)
        if turn is not None:
            assert turn not in self.running
            self.running.append(turn)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        turn = self._finished(data)
        self.schedule.give_back(turn)
        self.woken.discard(turn)
        if not turn.is_stopping:
            self.owed.insert(0, turn)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), delay_s=st.sampled_from([0.0, 0.5, 0.5, 7.0, 7.0, 3600.0, math.inf]))
    def finish(self, data: st.DataObject, delay_s: float) -> None:
        turn = self._finished(data)
        self.schedule.finish(turn, delay_s, self.now_s)
        self.failures[turn] = 0
        self._expect(turn, delay_s)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        turn = self._finished(data)
        # What would wake it has failed with it.
        self.woken.discard(turn)
        self.schedule.fail(turn, self.now_s)
        self._expect(turn, min(0.1 * 2 ** self.failures[turn], LONGEST_BACKOFF_S))
        self.failures[turn] += 1

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        turn = self._finished(data)
        turn.stage = Stage.ENDED
        self.woken.discard(turn)

    @rule(seconds=st.sampled_from([0.0, 0.1, 0.5, 7.0, 5000.0]))
    def time_goes_on(self, seconds: float) -> None:
        self.now_s += seconds
        over = [turn for turn, due_s in self.due_s.items() if due_s <= self.now_s]
        # Those whose time came first are served first; among equals, who has waited longest.
        over.sort(key=lambda turn: self.due_s[turn])
        self.schedule.release_due(self.now_s)
        for turn in over:
            del self.due_s[turn]
            self.owed.append(turn)

    def _finished(self, data: st.DataObject) -> ScheduleEntry:
        turn = data.draw(st.sampled_from(self.running))
        self.running.remove(turn)
        return turn

    def _expect(self, turn: ScheduleEntry, delay_s: float) -> None:
        if turn.is_stopping:
            assert turn.stage is Stage.ENDED
        elif turn in self.woken or delay_s <= 0:
            self.owed.append(turn)
        else:
            self.due_s[turn] = self.now_s + delay_s
        self.woken.discard(turn)

    @invariant()
    def everybody_is_where_they_should_be(self) -> None:
        for turn in self.turns:
            if turn in self.running:
                assert turn.stage is Stage.RUNNING
            elif turn in self.owed:
                assert turn.stage is Stage.READY
            elif turn in self.due_s:
                assert turn.stage is Stage.WAITING
            else:
                assert turn.stage is Stage.ENDED
        assert self.schedule.next_due_s == min(self.due_s.values(), default=math.inf)
        assert (self.schedule.ready_s < math.inf) == bool(self.owed)


TestScheduled = Scheduled.TestCase
TestScheduled.settings = settings(max_examples=40, stateful_step_count=60)


def test_wakes_leave_nothing_behind_in_the_heap():
    """A poller that is woken a thousand times a second and has a batching window of minutes must not pile up times."""
    schedule: Schedule[ScheduleEntry] = Schedule()
    turn = ScheduleEntry()
    schedule.add(turn)
    for second in range(10_000):
        assert schedule.next() is turn
        schedule.finish(turn, 300.0, float(second))
        schedule.wake(turn)
    assert len(schedule._due) <= 64 + 2
