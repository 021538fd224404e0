"""Alarms: the decision by AWS's own tables, rules of composite alarms, metric math, and the worker by a clock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.services.cloudwatch import alarms
from headrace.services.cloudwatch.alarm_rules import (
    Child,
    RuleRefused,
    decide_rule,
    explain,
    names_in,
)
from headrace.services.cloudwatch.alarms import decide
from headrace.services.cloudwatch.metric_math import (
    MathRefused,
    Metrics,
    Series,
    evaluate,
    evaluate_all,
)
from tests.support.clock import HandClock
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.server import wait_until

TREATMENTS = ("missing", "ignore", "breaching", "notBreaching")
OK, ALARM, KEPT, UNKNOWN = "OK", "ALARM", None, "INSUFFICIENT_DATA"


# The two tables of "How alarm state is evaluated when data is missing": 0 does not breach, X does, - is missing.
@pytest.mark.parametrize(
    ("points", "to_alarm", "states"),
    [
        ("0 - X - X", 3, (OK, OK, OK, OK)),
        ("- - - - 0", 3, (OK, OK, OK, OK)),
        ("- - - - -", 3, (UNKNOWN, KEPT, ALARM, OK)),
        ("0 X X - X", 3, (ALARM, ALARM, ALARM, ALARM)),
        ("- - X - -", 3, (ALARM, KEPT, ALARM, OK)),
        ("0 - X - X", 2, (ALARM, ALARM, ALARM, ALARM)),
        ("0 0 X 0 X", 2, (ALARM, ALARM, ALARM, ALARM)),
        ("0 - X - -", 2, (OK, OK, ALARM, OK)),
        ("- - - - 0", 2, (OK, OK, ALARM, OK)),
        ("- - - X -", 2, (ALARM, KEPT, ALARM, OK)),
    ],
)
def test_missing_data_is_treated_as_aws_tables_say(
    points: str, to_alarm: int, states: tuple[str | None, ...]
):
    values = [{"0": 0.0, "X": 9.0, "-": None}[sign] for sign in points.split()]
    for treatment, state in zip(TREATMENTS, states, strict=True):
        verdict = decide(
            list(enumerate(values)), periods=3, to_alarm=to_alarm, treat_missing=treatment,
            breaches=lambda value: value > 1,
        )  # fmt: skip
        assert verdict.state == state, (points, treatment)


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ("ALARM(a)", True), ('ALARM("b c") OR OK(a)', False), ("NOT (ALARM(a) AND ALARM(x))", True),
        ("AT_LEAST(1, OK, (a, \"b c\"))", True), ("AT_LEAST(2, OK, (a, \"b c\"))", False),
        ("AT_LEAST(50%, NOT ALARM, (a,\"b c\"))", True), ("AT_LEAST(51%, NOT ALARM, (a, \"b c\"))", False),
        ("TRUE AND at_least(2, NOT OK, (a, x, \"b c\")) AND ALARM(a)", True),
        ("ALARM(a) AND (OK(\"b c\") OR FALSE)", True), ("TRUE AND NOT INSUFFICIENT_DATA(a)", True),
    ],
)  # fmt: skip
def test_rules_of_composite_alarms(rule: str, holds: bool):
    assert decide_rule(rule, {"a": "ALARM", "b c": "OK"}.get) is holds


@pytest.mark.parametrize(
    "rule",
    [
        "", "ALARM(a", "ALARM(a) ALARM(b)", "FOO(a)", "NOT", "(" * 500, "A" * 20_000, "AT_LEAST", "AT_LEAST(",
        "AT_LEAST()", "AT_LEAST(2, ALARM)", "AT_LEAST(2, ALARM, ())", "AT_LEAST(2, FOO, (a))", "AT_LEAST(x, OK, (a))",
        "AT_LEAST(1, OK, (a, ))", "AT_LEAST(" + "9" * 9_000 + ", OK, (a))",
        "AT_LEAST(1, OK, (a b))", "AT_LEAST(1 OK (a))", "AT_LEAST(1, OK, (a)",
    ],
)  # fmt: skip
def test_rules_that_cannot_be_read(rule: str):
    with pytest.raises(RuleRefused):
        decide_rule(rule, lambda _: "OK")


def test_the_names_of_a_rule_are_those_of_all_its_functions():
    rule = 'ALARM(a) OR AT_LEAST(50%, NOT OK, (b, "c d", arn:aws:cloudwatch:us-east-1:0:alarm:e))'
    assert names_in(rule) == ["a", "b", "c d", "e"]


def test_composite_alarms_are_judged_once_each_after_those_that_they_name(
    monkeypatch: pytest.MonkeyPatch,
):
    count, judged = 3_000, []

    def alarm(name: str, rule: str) -> Any:
        return SimpleNamespace(
            name=name, rule=rule, state_value="OK", alarm_arn=name, state_reason_data="{}",
            state_updated_timestamp=datetime(2026, 11, 29, tzinfo=UTC),
        )  # fmt: skip

    # The last is the first of a chain; two of a circle, and one that names itself.
    chain = [alarm(f"c{n}", f'ALARM("c{n + 1}")') for n in range(count)] + [
        alarm(f"c{count}", "TRUE")
    ]
    circle = [alarm("a", "NOT ALARM(b)"), alarm("b", "ALARM(a)"), alarm("self", "NOT ALARM(self)")]
    by_rule = alarms._state_by_rule
    monkeypatch.setattr(
        alarms,
        "_state_by_rule",
        lambda one, states: (judged.append(one.name), by_rule(one, states))[1],
    )
    backend = SimpleNamespace(alarms={one.name: one for one in [*chain, *circle]})
    states = {one.name: one.state for one in alarms._changes(backend, 0)}
    assert all(states[one.name] == "ALARM" for one in chain)
    assert sorted(judged) == sorted(backend.alarms)


def test_a_composite_alarm_tells_which_alarm_has_changed_it():
    early, late = (datetime(2022, 7, 22, 15, 57, second, 394_000, UTC) for second in (4, 45))
    first = Child("arn:first", "ALARM", late)
    second = Child("arn:second", "OK", early)
    reason, data = explain("arn:both", "ALARM", [second, first], is_new=False)
    assert reason == "arn:first transitioned to ALARM at Friday 22 July, 2022 15:57:45 UTC"
    told = {
        "arn": "arn:first",
        "state": {"value": "ALARM", "timestamp": "2022-07-22T15:57:45.394+0000"},
    }
    assert json.loads(data) == {"triggeringAlarms": [told]}
    reason, data = explain("arn:both", "OK", [second, first], is_new=True)
    assert reason == "arn:both was created and its alarm rule evaluates to OK"
    assert [one["arn"] for one in json.loads(data)["triggeringAlarms"]] == [
        "arn:second",
        "arn:first",
    ]


M1: Series = {0: 1.0, 60: 2.0, 180: 4.0}
M2: Series = {0: 10.0, 60: 0.0, 120: 30.0}


@pytest.mark.parametrize(
    ("expression", "series"),
    [
        ("m1 + 1", {0: 2.0, 60: 3.0, 180: 5.0}),
        ("m1 / m2 * 100", {0: 10.0}),
        ("m2 - -m1", {0: 11.0, 60: 2.0}),
        ("SUM([m1, m2])", {0: 11.0, 60: 2.0, 120: 30.0, 180: 4.0}),
        ("SUM(METRICS())", {0: 11.0, 60: 2.0, 120: 30.0, 180: 4.0}),
        ('MAX(METRICS("second"))', M2),
        ("FILL(m1, 0)", {0: 1.0, 60: 2.0, 120: 0.0, 180: 4.0}),
        ("FILL(m1, REPEAT)", {0: 1.0, 60: 2.0, 120: 2.0, 180: 4.0}),
        ("IF(m2 > 5, m2, 0)", {0: 10.0, 60: 0.0, 120: 30.0}),
        ("RATE(m1)", {60: 1 / 60, 180: 2 / 120}),
        ("m1 / PERIOD(m1)", {0: 1 / 60, 60: 2 / 60, 180: 4 / 60}),
        ("RUNNING_SUM(m1)", {0: 1.0, 60: 3.0, 180: 7.0}),
        ("m1 > 1 AND m2 < 1", {0: 0.0, 60: 1.0}),
        ("2 ^ 3", {0: 8.0, 60: 8.0, 120: 8.0, 180: 8.0}),
        # What is no number is no point.
        ("m2 ^ (0 - 1)", {0: 0.1, 120: 1 / 30}),
        ("(0 - 8) ^ (1 / 0)", {}),
        ("1 / 0", {}),
        ("AVG(m1 / 0)", {}),
        ("m1 * 1e308 * 10", {}),
    ],
)
def test_metric_math(expression: str, series: Series):
    metrics = Metrics(
        {"m1": M1, "m2": M2},
        {"m1": "first", "m2": "the second"},
        {"m1": 60, "m2": 60},
        range(0, 240, 60),
    )
    assert evaluate(expression, metrics) == pytest.approx(series)


@pytest.mark.parametrize(
    "expression",
    [
        "m1 +", "m3", "FOO(m1)", "[m1, m2]", "SEARCH('x', 'Sum', 60)", "m1 ; m2", "(" * 300, "9" * 3000, "ABS(m1, m2)",
        "m1 + 'a'", "FIRST([])", "LAST(REMOVE_EMPTY([m1 / 0]))", "PERIOD()", "STDDEV([m1, 0])",
    ],
)  # fmt: skip
def test_metric_math_that_cannot_be_evaluated(expression: str):
    with pytest.raises(MathRefused):
        evaluate(
            expression, Metrics({"m1": M1, "m2": M2}, {}, {"m1": 60, "m2": 60}, range(0, 240, 60))
        )


def test_expressions_name_each_other_in_any_order():
    metrics = Metrics({"m1": M1}, {}, {"m1": 60}, range(0, 240, 60))
    assert evaluate_all([("e2", "e1 * 2"), ("e1", "m1 + 1")], metrics)["e2"] == {
        0: 4.0,
        60: 6.0,
        180: 10.0,
    }
    with pytest.raises(MathRefused):
        evaluate_all([("e1", "e2"), ("e2", "e1")], metrics)
    # Many expressions over many points are refused before they are computed.
    many = Metrics({"m1": M1}, {}, {"m1": 60}, range(0, 6_000_000, 60))
    with pytest.raises(MathRefused, match="too many points"):
        evaluate_all([(f"e{i}", "m1" + " + m1" * 200) for i in range(500)], many)
    long = Metrics({"m1": M1}, {}, {"m1": 60}, range(0, 60_000_000, 60))
    assert evaluate("m1 * 1", long) == M1
    with pytest.raises(MathRefused, match="1,000,000 periods"):
        evaluate("FILL(m1, 0)", long)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def cloud(clock: HandClock, tmp_path: Any) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path / "data", clock=clock) as cloud:
        yield cloud


def state(cloud: InProcessCloud, name: str) -> dict[str, Any]:
    answer = cloud.client("cloudwatch").describe_alarms(
        AlarmNames=[name], AlarmTypes=["MetricAlarm", "CompositeAlarm"]
    )
    return (answer["MetricAlarms"] or answer["CompositeAlarms"])[0]


def test_an_alarm_rings_and_falls_silent_by_the_clock(cloud: InProcessCloud, clock: HandClock):
    sns, sqs, watch = cloud.client("sns"), cloud.client("sqs"), cloud.client("cloudwatch")
    topic = sns.create_topic(Name="t")["TopicArn"]
    queue = sqs.create_queue(QueueName="q")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    # moto takes an alarm without periods: the others are evaluated nevertheless.
    watch.put_metric_alarm(
        AlarmName="0", Namespace="n", MetricName="m", Statistic="Sum", Period=60, Threshold=5,
        ComparisonOperator="GreaterThanThreshold",
    )  # fmt: skip
    watch.put_metric_alarm(
        AlarmName="1", Namespace="n", MetricName="m", Statistic="Sum", EvaluationPeriods=1, Threshold=5,
        ComparisonOperator="GreaterThanThreshold",
    )  # fmt: skip
    watch.put_metric_alarm(
        AlarmName="a", Namespace="n", MetricName="m", Dimensions=[{"Name": "d", "Value": "1"}], Statistic="Sum",
        Period=60, EvaluationPeriods=1, DatapointsToAlarm=1, Threshold=5, ComparisonOperator="GreaterThanThreshold",
        TreatMissingData="notBreaching", AlarmActions=[topic], OKActions=[topic],
    )  # fmt: skip
    watch.put_metric_alarm(
        AlarmName="math", EvaluationPeriods=1, Threshold=50, ComparisonOperator="GreaterThanThreshold",
        Metrics=[
            {"Id": "e", "Expression": "m * 10", "ReturnData": True},
            {"Id": "m", "ReturnData": False, "MetricStat": {
                "Metric": {"Namespace": "n", "MetricName": "m", "Dimensions": [{"Name": "d", "Value": "1"}]},
                "Period": 60, "Stat": "Sum",
            }},
        ],
    )  # fmt: skip
    watch.put_composite_alarm(AlarmName="both", AlarmRule='ALARM("a") AND ALARM(math)')
    # Nothing breaches; the other has no data.
    wait_until(lambda: state(cloud, "a")["StateValue"] == "OK")
    assert state(cloud, "math")["StateValue"] == "INSUFFICIENT_DATA"

    def put(value: float) -> None:
        watch.put_metric_data(
            Namespace="n",
            MetricData=[
                {"MetricName": "m", "Value": value, "Dimensions": [{"Name": "d", "Value": "1"}]}
            ],
        )

    put(4)
    put(3)
    clock.advance(60)
    wait_until(lambda: state(cloud, "both")["StateValue"] == "ALARM")
    alarm = state(cloud, "a")
    assert alarm["StateValue"] == "ALARM"
    assert "was greater than the threshold (5.0) (minimum 1 datapoint for" in alarm["StateReason"]
    assert json.loads(alarm["StateReasonData"])["recentDatapoints"] == [7.0]
    # An update keeps the state.
    watch.put_metric_alarm(
        AlarmName="math", Namespace="n", MetricName="m", Statistic="Sum", Period=60, EvaluationPeriods=1, Threshold=1,
        ComparisonOperator="GreaterThanThreshold", Dimensions=[{"Name": "d", "Value": "1"}],
    )  # fmt: skip
    assert state(cloud, "math")["StateValue"] == "ALARM"

    told: list[str] = []

    def both_are_told() -> bool:
        got = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
        told.extend(json.loads(json.loads(one["Body"])["Message"])["NewStateValue"] for one in got)
        return len(told) >= 2

    wait_until(both_are_told)
    assert sorted(told) == ["ALARM", "OK"]
    # Without data the last points count until they leave the range; then missing data does not breach.
    for _ in range(5):
        clock.advance(60)
    wait_until(lambda: state(cloud, "a")["StateValue"] == "OK")
    wait_until(lambda: state(cloud, "both")["StateValue"] == "OK")


def test_expressions_of_get_metric_data_and_what_is_refused(
    cloud: InProcessCloud, clock: HandClock
):
    watch = cloud.client("cloudwatch")
    watch.put_metric_data(Namespace="n", MetricData=[{"MetricName": "m", "Value": 2}])
    now_s = clock.now_ms() // 1000
    stat = {"Metric": {"Namespace": "n", "MetricName": "m"}, "Period": 60, "Stat": "Sum"}

    def ask(expression: str) -> list[dict[str, Any]]:
        return watch.get_metric_data(
            MetricDataQueries=[
                {"Id": "m1", "MetricStat": stat, "ReturnData": False},
                {"Id": "e1", "Expression": expression},
            ],
            StartTime=now_s - 120, EndTime=now_s + 60,
        )["MetricDataResults"]  # fmt: skip

    (result,) = ask("m1 * 10")
    assert (result["Id"], result["Values"]) == ("e1", [20.0])
    # Every period is filled, also those after the 1,440th.
    (result,) = watch.get_metric_data(
        MetricDataQueries=[
            {"Id": "m1", "MetricStat": stat, "ReturnData": False},
            {"Id": "e1", "Expression": "FILL(m1, 0)"},
        ],
        StartTime=now_s - 120_000, EndTime=now_s + 60,
    )["MetricDataResults"]  # fmt: skip
    assert (len(result["Values"]), sum(result["Values"])) == (2001, 2.0)
    # Neither a metric nor an expression.
    for more in ([], [{"Id": "e2", "Expression": "m1 * 2"}]):
        queries = [{"Id": "m1", "MetricStat": stat}, {"Id": "none"}, *more]
        with pytest.raises(ClientError, match="MetricStat"):
            watch.get_metric_data(
                MetricDataQueries=queries, StartTime=now_s - 120, EndTime=now_s + 60
            )
    for expression, message in (
        ("m9", "Unknown identifier"),
        ("SELECT SUM(m) FROM n", "Metrics Insights"),
    ):
        with pytest.raises(ClientError, match=message) as error:
            ask(expression)
        assert error.value.response["Error"]["Code"] == "ValidationError"
    for periods, period_s, span in (
        (1441, 60, "a day"),
        (10**9, 10, "a day"),
        (169, 3600, "seven days"),
    ):
        with pytest.raises(ClientError, match=f"across more than {span} ") as error:
            watch.put_metric_alarm(
                AlarmName="far", Namespace="n", MetricName="m", Statistic="Sum", Period=period_s, Threshold=1,
                EvaluationPeriods=periods, ComparisonOperator="GreaterThanThreshold",
            )  # fmt: skip
        assert error.value.response["Error"]["Code"] == "ValidationError"
    with pytest.raises(ClientError, match="AlarmRule"):
        watch.put_composite_alarm(AlarmName="c", AlarmRule="ALARM(a")


def test_queues_rules_topics_and_machines_are_measured_and_an_alarm_is_an_event(
    cloud: InProcessCloud, clock: HandClock
):
    """The commonest alarms: a dead-letter queue that has a message, a state machine that failed."""
    sqs, events, states = (cloud.client(name) for name in ("sqs", "events", "stepfunctions"))
    sqs.create_queue(QueueName="dead")
    # What was received must not come again when the time is moved.
    told = sqs.create_queue(QueueName="told", Attributes={"VisibilityTimeout": "43200"})["QueueUrl"]
    topic = cloud.client("sns").create_topic(Name="t")["TopicArn"]
    events.put_rule(
        Name="r",
        EventPattern=json.dumps({"source": ["aws.cloudwatch", "aws.states"]}),
    )
    target = {"Id": "1", "Arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:told"}
    events.put_targets(Rule="r", Targets=[target])
    watch = cloud.client("cloudwatch")
    watch.put_metric_alarm(
        AlarmName="deep", Namespace="AWS/SQS", MetricName="ApproximateNumberOfMessagesVisible",
        Dimensions=[{"Name": "QueueName", "Value": "dead"}], Statistic="Maximum", Period=60, EvaluationPeriods=1,
        Threshold=0, ComparisonOperator="GreaterThanThreshold",
    )  # fmt: skip
    queue = sqs.get_queue_url(QueueName="dead")["QueueUrl"]
    for delay_s in (0, 0, 900):
        sqs.send_message(QueueUrl=queue, MessageBody="m", DelaySeconds=delay_s)
    sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=1, VisibilityTimeout=40_000)
    cloud.client("sns").publish(TopicArn=topic, Message="m")
    machine = states.create_state_machine(
        name="m",
        roleArn=f"arn:aws:iam::{ACCOUNT}:role/r",
        definition='{"StartAt": "F", "States": {"F": {"Type": "Fail", "Error": "E", "Cause": "why"}}}',
    )["stateMachineArn"]
    states.start_execution(stateMachineArn=machine, input='{"a":1}')
    details: list[dict[str, Any]] = []

    def are_told(count: int) -> bool:
        got = sqs.receive_message(QueueUrl=told, MaxNumberOfMessages=10).get("Messages", [])
        details.extend(json.loads(one["Body"]) for one in got)
        return len(details) >= count

    # A client cannot send such an event.
    entry = {"Source": "aws.states", "DetailType": "d", "Detail": "{}"}
    answer = events.put_events(Entries=[{**entry, "Source": "mine"}, entry])
    assert answer["FailedEntryCount"] == 1
    assert "EventId" in answer["Entries"][0]
    assert answer["Entries"][1]["ErrorCode"] == "NotAuthorizedForSourceException"
    wait_until(lambda: are_told(2), what="the execution's events")
    assert {one["detail-type"] for one in details} == {"Step Functions Execution Status Change"}
    started, failed = sorted(
        (one["detail"] for one in details), key=lambda d: d["status"] == "FAILED"
    )
    assert (started["status"], started["stopDate"], started["input"]) == (
        "RUNNING",
        None,
        '{"a":1}',
    )
    assert (failed["error"], failed["cause"], failed["output"]) == ("E", "why", None)
    assert failed["stateMachineArn"] == machine

    def metrics() -> set[tuple[str, str, str]]:
        # They are sent some seconds after they are measured.
        clock.advance(1)
        listed = watch.get_paginator("list_metrics").paginate()
        return {
            (one["Namespace"], one["MetricName"], one["Dimensions"][0]["Value"])
            for page in listed
            for one in page["Metrics"]
        }

    clock.advance(60)
    wait_until(
        lambda: (
            {
                ("AWS/SNS", "NumberOfMessagesPublished", "t"),
                ("AWS/SQS", "NumberOfMessagesSent", "dead"),
                ("AWS/Events", "TriggeredRules", "r"),
                ("AWS/States", "ExecutionsStarted", machine),
                ("AWS/States", "ExecutionsFailed", machine),
            }
            <= metrics()
        ),
        what="the metrics of the minute",
    )
    clock.advance(60)
    wait_until(lambda: state(cloud, "deep")["StateValue"] == "ALARM", what="the alarm")
    recent = json.loads(state(cloud, "deep")["StateReasonData"])["recentDatapoints"]
    # Neither what is in flight nor what is delayed.
    assert recent == [1.0]

    def of_alarm() -> list[dict[str, Any]]:
        are_told(0)
        kind = ("aws.cloudwatch", "CloudWatch Alarm State Change")
        alarms = [one for one in details if (one["source"], one["detail-type"]) == kind]
        # It may have been OK before its queue was measured.
        return [one for one in alarms if one["detail"]["state"]["value"] != "OK"]

    wait_until(of_alarm, what="the alarm's event")
    (event,) = of_alarm()
    assert event["resources"] == [state(cloud, "deep")["AlarmArn"]]
    assert event["detail"]["alarmName"] == "deep"
    assert event["detail"]["state"]["value"] == "ALARM"
    assert event["detail"]["previousState"]["value"] in ("INSUFFICIENT_DATA", "OK")
