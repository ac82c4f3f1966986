"""Every address, asked whatever its description allows, and much that it does not."""

import copy

import msgspec
import numpy as np
import polars as pl
import pytest
from asking import ask as ask_service
from clicked import clicks
from hypothesis import HealthCheck, Phase, given, settings

from fmpair import Dataset, FMPair
from fmpair.events.store import open_store
from fmpair.serve.application import Application
from fmpair.serve.endpoints import ENDPOINTS, document
from fmpair.serve.live_models import LiveModels
from fmpair.serve.service import Service

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the libraries it is made of
]

# Questions of each kind to each address.
TRIES = [15, pytest.param(100, marks=pytest.mark.thorough)]
PATHS = [(path, method) for path, own in document(False)["paths"].items() for method in own]
TAKING = {endpoint.path for endpoint in ENDPOINTS if endpoint.takes or endpoint.parameters}
CONTEXT = ["daytime", "warmth", "holiday", "tags", "moods"]
ATTRIBUTES = ["group", "age", "likes", "taste"]
LOCAL = {"host": "localhost"}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Around a model that knows every kind of context, histories, times and attributes."""
    folder = tmp_path_factory.mktemp("fuzzed")
    frame = clicks()
    draw = np.random.default_rng(5)
    frame = frame.with_columns(
        holiday=pl.Series(draw.random(len(frame)) < 0.3),
        tags=pl.Series([["a", "b"][: 1 + n % 2] for n in range(len(frame))]),
        moods=pl.Series([f"calm:{n % 3}.5|tense:1" for n in range(len(frame))]),
    )
    fields = {
        "moods": {"kind": "weighted"},
        "timestamp": {"kind": "time", "parts": ["hour", "weekday", "period", "since"]},
    }
    users = pl.DataFrame({
        "user": (known := frame["user"].unique(maintain_order=True)),
        "group": [["a", "b"][n % 2] for n in range(len(known))],
        "age": [n + 0.5 for n in range(len(known))],
        "likes": [["a", "b"][: 1 + n % 2] for n in range(len(known))],
        "taste": [[n / 9, 1 - n / 9] for n in range(len(known))],
    })  # fmt: skip
    recipe = FMPair(factors=4, epochs=2, history=3, threads=1, fields=fields)
    recipe.fit(Dataset.from_frame(frame, users=users)).save(folder / "model.fmpair")
    store = open_store(folder / "events.db")
    yield Application(Service(LiveModels(folder / "model.fmpair", store), store))
    store.close()


# Without "negative" where nothing is asked that could be wrong.
@pytest.mark.parametrize("tries", TRIES)
@pytest.mark.parametrize(
    ("path", "method", "mode"),
    [(*own, mode) for own in PATHS for mode in ("positive", "negative")
     if mode == "positive" or own[0] in TAKING],
)  # fmt: skip
def test_no_question_makes_the_service_fail(service, path, method, mode, tries):
    described = schemathesis.openapi.from_asgi("/openapi.json", service, headers=LOCAL)
    operation = described[path][method.upper()]
    checks = schemathesis.checks
    kept = [
        checks.not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]

    @settings(
        max_examples=tries,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(schemathesis.GenerationMode(mode)))
    def ask(case):
        case.call_and_validate(headers=LOCAL, checks=kept)
        if isinstance(case.body, dict):  # the same of what is known, which leads further inside
            case.body = _of_known(case.body)
            case.call_and_validate(headers=LOCAL, checks=kept)

    ask()


def _of_known(body):
    """A body that names ids and columns of the model, its values as they were."""
    body = copy.deepcopy(body)
    for one in (body, *_listed(body, "questions"), *_listed(body, "events")):
        if not isinstance(one, dict):
            continue
        if "user" in one:
            one["user"] = "ann/3 <é🎈>"
        if "item" in one:
            one["item"] = 3
        if isinstance(one.get("context"), dict):
            one["context"] = dict(zip(CONTEXT, one["context"].values()))
        if isinstance(one.get("user_features"), dict):
            one["user_features"] = dict(zip(ATTRIBUTES, one["user_features"].values()))
        if "unknown" in one:
            one["unknown"] = "features"
        for name in ("history", "candidates", "exclude", "items"):
            if isinstance(one.get(name), list):
                one[name] = [place % 20 for place in range(len(one[name]))]
    return body


def _listed(body, name):
    found = body.get(name)
    return found if isinstance(found, list) else []


@pytest.mark.parametrize(
    ("option", "column"),
    [*(("context", name) for name in (*CONTEXT, "timestamp")),
     *(("user_features", name) for name in ATTRIBUTES)],
)  # fmt: skip
def test_no_value_of_the_context_or_the_user_makes_the_service_fail(service, option, column):
    values = [
        "",
        "x",
        "a:1|b:x",
        "2024-01-01",
        0,
        -1,
        2**63 - 1,
        1.5,
        1e308,
        True,
        None,
        [],
        [1],
        ["a", "z"],
        [1, "a"],
        [1.5, 2],
        [None],
        [1.5, None],
        ["a", None],
        {},
        {"calm": 1.0},
        {"z": 1e308},
        "\ud7ff",
        "\0",
    ]
    for value in values:
        for unknown in ("error", "ignore", "features", "popular"):
            body = {option: {column: value}, "unknown": unknown, "user": "ann/3 <é🎈>"}
            assert ask_service(service, "/v1/recommend", body).status in (200, 404, 422)
    for value in values:
        assert ask_service(service, "/v1/recommend", {"time": value}).status in (200, 404, 422)


def test_every_example_of_the_description_can_be_read():
    for endpoint in ENDPOINTS:
        if endpoint.takes is not None:
            msgspec.convert(endpoint.example, endpoint.takes)
