"""submit/alarms.py and `tfhet submit --alarms`: requests that CloudWatch accepts, of metrics that the job has."""

from __future__ import annotations

import json

import pytest

from tfhet import catalogue
from tfhet.__main__ import main
from tfhet.errors import UsageError
from tfhet.submit import DEFINITIONS, Alarms, create_request, read

TOPIC = "arn:aws:sns:us-east-1:123456789012:alarms"
NAME = "digits-1"
PRICES = """
prices:
  - region: us-east-1
    market: sagemaker training
    source: a test
    date: 2026-11-29
    usd_per_hour: {ml.c5.18xlarge: 3.5, ml.p4d.24xlarge: 38.0}
"""
KNOWN = catalogue.shipped()


@pytest.fixture
def known(tmp_path):
    file = tmp_path / "prices.yaml"
    file.write_text(PRICES)
    return KNOWN.with_file(file)


@pytest.fixture
def job(jobs):
    return read(jobs / "heterogeneous.yaml")


def hours(alarm: dict) -> float:
    return alarm["DatapointsToAlarm"] * alarm["Period"] / 3600


USD_PER_HOUR = 2 * 3.5 + 38.0


def test_cloudwatch_accepts_the_requests(job, known):
    botocore = pytest.importorskip("botocore.session")
    stub = pytest.importorskip("botocore.stub")
    client = botocore.get_session().create_client(
        "cloudwatch", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    alarms = Alarms(budget_usd=100.0, topic=TOPIC).requests(job, NAME, known)
    with stub.Stubber(client) as stubber:
        for request in alarms.values():
            stubber.add_response("put_metric_alarm", {}, request)
            client.put_metric_alarm(**request)  # checks the names and types of all fields
            assert request["AlarmActions"] == [TOPIC]
            period_s = request.get("Period", 60)
            assert request["EvaluationPeriods"] * period_s <= (86_400 if period_s < 3600 else 604_800)
            assert request["DatapointsToAlarm"] <= request["EvaluationPeriods"]
        stubber.assert_no_pending_responses()


def test_alarms_use_metrics_of_the_job(job):
    alarms = Alarms().requests(job, NAME, KNOWN)
    request = create_request(job, NAME, "s3://my-bucket/code", "secret")
    defined = {each["Name"] for each in request["AlgorithmSpecification"]["MetricDefinitions"]}
    assert alarms["Waiting"]["MetricName"] in defined & {each.name for each in DEFINITIONS}
    assert alarms["Waiting"]["Dimensions"] == [{"Name": "TrainingJobName", "Value": NAME}]
    hosts = sum(each.count for each in job.groups.values())
    assert sorted(alarms) == sorted(["Waiting", *(f"Silent{number + 1}" for number in range(hosts))])
    for number in range(hosts):
        _, own, other = alarms[f"Silent{number + 1}"]["Metrics"]
        values = [each["MetricStat"]["Metric"]["Dimensions"][0]["Value"] for each in (own, other)]
        assert values[0] == f"{NAME}/algo-{number + 1}" and values[1] != values[0]


def test_a_host_alone_has_no_alarm_for_silence(jobs):
    assert list(Alarms().requests(read(jobs / "one-rank.yaml"), NAME, KNOWN)) == ["Waiting"]


@pytest.mark.parametrize("paid_h", [0.5, 5.0, 23.9, 40.0, 160.0])
def test_budget_is_the_time_that_it_pays_for(job, known, paid_h):
    alarm = Alarms(budget_usd=paid_h * USD_PER_HOUR).requests(job, NAME, known)["Cost"]
    assert paid_h - alarm["Period"] / 3600 < hours(alarm) <= paid_h + 1e-9


@pytest.mark.parametrize("paid_h", [0.01, 1000.0])
def test_budget_that_cannot_be_watched_is_refused(job, known, paid_h):
    with pytest.raises(UsageError, match="--budget_usd.*set it to"):
        Alarms(budget_usd=paid_h * USD_PER_HOUR).requests(job, NAME, known)


def test_budget_without_a_price_is_refused(job):
    with pytest.raises(UsageError, match="tfhet prices refresh"):
        Alarms(budget_usd=1.0).requests(job, NAME, KNOWN)


def test_wrong_topic_is_refused():
    with pytest.raises(UsageError, match="--alarm_topic.*ARN of an SNS topic"):
        Alarms(topic="alarms")


def test_command_writes_a_template(jobs, tmp_path, capsys):
    file = tmp_path / "new" / "alarms.json"
    words = ["submit", str(jobs / "heterogeneous.yaml"), "--dry_run", "--name", NAME]
    assert main([*words, "--alarms", str(file), "--alarm_wait_pct", "25", "--alarm_topic", TOPIC]) == 0
    template = json.loads(file.read_text())
    assert template["AWSTemplateFormatVersion"] == "2010-09-09"
    waiting = template["Resources"]["Waiting"]
    assert waiting["Type"] == "AWS::CloudWatch::Alarm"
    assert waiting["Properties"]["Threshold"] == 25.0
    assert all(name.isalnum() for name in template["Resources"])
    assert json.loads(capsys.readouterr().out)["TrainingJobName"] == NAME
    for wrong in (["--alarms", "-"], ["--budget_usd", "5"], ["--alarm_wait_pct", "0", "--alarms", str(file)]):
        assert main([*words, *wrong]) == 2
        assert "alarm" in capsys.readouterr().err
