"""What is counted is counted once, whichever worker did it."""

import re

import pytest
from asking import ask
from static_model import StaticModel

from fmpair.serve.application import Application, paths
from fmpair.serve.metrics import Metrics, shared_memory
from fmpair.serve.service import Service


def numbers(text: str) -> dict[str, float]:
    """The samples by name and labels; every line must be one, or a comment."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value = re.fullmatch(r"(\w+(?:\{[^{}]*\})?) (\S+)", line).groups()
            assert name not in found
            found[name] = float(value)
    return found


@pytest.fixture
def service(served_model):
    metrics = Metrics(paths())
    return Application(Service(StaticModel(served_model, "m"), metrics=metrics), counters=metrics)


def test_requests_are_counted_by_address_and_status(service):
    for body in ({}, {}, {"n": 0}):
        ask(service, "/v1/recommend", body)
    ask(service, "/nothing")
    found = numbers(ask(service, "/metrics").body.decode())
    assert found['fmpair_requests_total{path="/v1/recommend",status="200"}'] == 2
    assert found['fmpair_requests_total{path="/v1/recommend",status="422"}'] == 1
    assert found['fmpair_requests_total{path="other",status="404"}'] == 1
    assert found['fmpair_request_duration_seconds_count{path="/v1/recommend"}'] == 3
    assert found['fmpair_request_duration_seconds_bucket{path="/v1/recommend",le="+Inf"}'] == 3
    assert found['fmpair_request_duration_seconds_sum{path="/v1/recommend"}'] > 0


def test_unknown_ids_are_counted(service):
    ask(service, "/v1/recommend", {"user": "who", "unknown": "error"})
    ask(service, "/v1/recommend", {"user": "who"})
    ask(service, "/v1/score", {"items": [77, 78, 3], "context": {"daytime": "noon", "x": 1}})
    found = numbers(ask(service, "/metrics").body.decode())
    assert found["fmpair_refused_unknown_total"] == 1
    assert found["fmpair_unknown_users_total"] == 1
    assert found["fmpair_unknown_items_total"] == 2
    assert found["fmpair_unknown_values_total"] == 2


def test_the_age_of_the_model_is_told(service):
    found = numbers(ask(service, "/metrics").body.decode())
    assert found['fmpair_model_info{arm="current",model="m"}'] == 1
    assert found['fmpair_model_age_seconds{arm="current"}'] >= 0


def test_several_workers_add_up_and_a_new_one_goes_on_where_the_last_ended():
    shared = shared_memory(2)
    first, second = (Metrics(paths(), shared, worker) for worker in (0, 1))
    first.observe("/v1/recommend", 200, 0.002)
    second.observe("/v1/recommend", 200, 0.3)
    second.count("events", 5)
    second.follow("swaps", 2)
    again = Metrics(paths(), shared, 1)
    again.observe("/v1/recommend", 200, 0.0001)
    again.follow("swaps", 1)
    found = numbers(first.text())
    assert found['fmpair_requests_total{path="/v1/recommend",status="200"}'] == 3
    assert found['fmpair_request_duration_seconds_bucket{path="/v1/recommend",le="0.0025"}'] == 2
    assert found["fmpair_events_taken_total"] == 5 and found["fmpair_model_swaps_total"] == 3
