"""New users by their attributes and new items by their vectors: Python, the shell, the service.

Users of three groups choose the items of their group. The vectors of items tell the groups apart.
"""

import io
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from asking import ask
from static_model import StaticModel

from fmpair import load
from fmpair.cli import run
from fmpair.models import EASE
from fmpair.serve.application import Application
from fmpair.serve.live_models import LiveModels
from fmpair.serve.service import Service

GROUPS, USERS, ITEMS, NEW_USERS, NEW_ITEMS = 3, 90, 45, 3, 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """clicks.csv, users.csv with new users, titles.npy with new items, described.csv, model."""
    folder, rng = tmp_path_factory.mktemp("cold"), np.random.default_rng(0)
    user = np.repeat(np.arange(USERS), 10)
    item = rng.integers(0, ITEMS // GROUPS, len(user)) * GROUPS + user % GROUPS
    clicks = pl.DataFrame({"user": [f"u{n}" for n in user], "item": [f"i{n}" for n in item]})
    clicks.unique(maintain_order=True).write_csv(folder / "clicks.csv")
    number = np.arange(USERS + NEW_USERS)
    group = [f"g{n % GROUPS}" for n in number]
    pl.DataFrame({"user": [f"u{n}" for n in number], "group": group}).write_csv(
        folder / "users.csv"
    )
    described = {"user": [f"v{n}" for n in range(GROUPS)], "group": group[:GROUPS]}
    pl.DataFrame(described).write_csv(folder / "described.csv")
    every = np.arange(ITEMS + NEW_ITEMS)
    titles = np.eye(GROUPS)[every % GROUPS] + 0.1 * rng.normal(size=(len(every), GROUPS))
    np.save(folder / "titles.npy", titles.astype(np.float32))
    (folder / "titles.ids.txt").write_text("\n".join(f"i{n}" for n in every))
    arguments = ["fit", folder / "clicks.csv", "-o", folder / "m.fmpair", "--quiet"]
    arguments += ["--users", folder / "users.csv", "--vectors", folder / "titles.npy"]
    arguments += ["--factors", "8", "--epochs", "10", "--history", "0", "--times", "false"]
    arguments += ["--fm-order", "2", "--threads", "1"]
    assert run([str(argument) for argument in arguments]) == 0
    return folder


def groups_of(items):
    return {int(item[1:]) % GROUPS for item in items}


def printed(capsys, *arguments):
    """The table that a command prints."""
    assert run([str(argument) for argument in arguments]) == 0
    return pl.read_csv(io.StringIO(capsys.readouterr().out))


@pytest.mark.parametrize("group", range(GROUPS))
def test_a_new_user_with_attributes_gets_the_items_of_the_group(folder, group, capsys):
    model, wanted = load(folder / "m.fmpair"), {group}
    known, new = f"u{USERS + group}", f"v{group}"
    assert groups_of(model.recommend(known, n=5)["item"]) == wanted
    given = model.recommend("anyone", n=5, user_features={"group": f"g{group}"})
    assert groups_of(given["item"]) == wanted
    recommend = ("recommend", folder / "m.fmpair", "-n", 5, "--user")
    assert groups_of(printed(capsys, *recommend, known)["item"]) == wanted
    table = ("--user-features", folder / "described.csv")
    assert groups_of(printed(capsys, *recommend, new, *table)["item"]) == wanted
    service = Application(Service(LiveModels(folder / "m.fmpair")))
    described = {"user": "anyone", "user_features": {"group": f"g{group}"}}
    for asked in ({"user": known}, described):
        answer = ask(service, "/v1/recommend", {**asked, "n": 5}).json
        assert groups_of(ranked["item"] for ranked in answer["items"]) == wanted
        assert "unknown" not in answer


@pytest.fixture
def service(folder):
    application = Application(Service(LiveModels(folder / "m.fmpair")))
    counting = replace(application.service, metrics=application.metrics)
    return Application(counting, counters=application.metrics)


NEW = {"user": "new", "user_features": {"group": "g1"}}


def test_every_address_knows_a_user_by_the_attributes_of_the_request(service, folder):
    wanted = load(folder / "m.fmpair").recommend("new", n=4, user_features={"group": "g1"})
    listed = ask(service, "/v1/recommend", {**NEW, "n": 4}).json["items"]
    assert [one["item"] for one in listed] == wanted["item"].to_list()
    scores = [one["score"] for one in listed]
    assert scores == pytest.approx(wanted["score"].to_list(), rel=1e-5)
    batch = {"questions": [{"user": "u0", "n": 4}, {**NEW, "n": 4}, {"user": "new", "n": 4}]}
    answers = ask(service, "/v1/recommend/batch", batch).json["answers"]
    assert answers[1]["items"] == listed and "unknown" not in answers[1]
    assert answers[2]["items"] != listed and answers[2]["unknown"] == ["user"]
    items = [one["item"] for one in listed]
    scored = ask(service, "/v1/score", {**NEW, "items": items}).json
    assert [one["score"] for one in scored["items"]] == pytest.approx(scores, rel=1e-5)
    explained = ask(service, "/v1/explain", {**NEW, "item": items[0]}).json
    assert "group=g1" in {term["query"] for term in explained["terms"]}
    total = sum(term["value"] for term in explained["terms"])
    assert total == pytest.approx(explained["score"], abs=1e-5)
    assert explained["score"] == pytest.approx(scores[0], rel=1e-5)
    assert "unknown" not in scored and "unknown" not in explained


def test_attributes_count_under_rules_and_for_candidates(service, folder):
    chosen = {**NEW, "n": 2, "candidates": ["i0", "i1", "i2"]}
    assert ask(service, "/v1/recommend", chosen).json["items"][0]["item"] == "i1"
    varied = ask(service, "/v1/recommend", {**NEW, "n": 4, "diversity": 0.1}).json
    assert groups_of([varied["items"][0]["item"]]) == {1} and "unknown" not in varied
    arms = LiveModels(folder / "m.fmpair", candidate=folder / "m.fmpair", share=0.5)
    both = Application(Service(arms))
    lists = [ask(both, "/v1/recommend", {**NEW, "arm": arm}).json for arm in arms_of(both)]
    assert [one["arm"] for one in lists] == ["current", "candidate"]
    assert lists[0]["items"] == lists[1]["items"] and groups_of([lists[0]["items"][0]["item"]]) == {
        1
    }


def arms_of(service):
    return [one["arm"] for one in ask(service, "/v1/model").json["models"]]


def test_given_attributes_replace_those_of_a_known_user_and_a_history_adds_to_them(service):
    terms = ask(
        service, "/v1/explain", {"user": "u0", "item": "i0", "user_features": {"group": "g2"}}
    )
    assert {"user=u0", "group=g2"} <= {term["query"] for term in terms.json["terms"]}
    assert "group=g0" not in {term["query"] for term in terms.json["terms"]}
    visitor = {"history": ["i2"], "user_features": {"group": "g2"}, "item": "i5"}
    terms = ask(service, "/v1/explain", visitor).json["terms"]
    assert {"group=g2", "history=i2"} <= {term["query"] for term in terms}


@pytest.mark.parametrize(
    ("features", "unknown", "same_as", "refused"),
    [
        (
            {"gruop": "g1"}, ["user", "user_features.gruop"], {"user": "new"},
            "unknown user feature 'gruop'. Did you mean 'group'? Known: group",
        ),
        (
            {"group": "g1", "age": 3}, ["user_features.age"], NEW,
            "unknown user feature 'age'. Known: group",
        ),
        (
            {"group": "g11"}, ["user_features.group"], {"user": "new"},
            "unknown value of user feature 'group' 'g11'. Did you mean 'g1'? Known: g0, g1, g2",
        ),
    ],
)  # fmt: skip
def test_unknown_attributes_are_left_out_and_named_unless_the_service_is_strict(
    service, features, unknown, same_as, refused
):
    asked = {"user": "new", "user_features": features}
    answer = ask(service, "/v1/recommend", asked).json
    assert answer["unknown"] == unknown
    assert answer["items"] == ask(service, "/v1/recommend", same_as).json["items"]
    assert "fmpair_unknown_values_total 1\n" in service.metrics.text()
    strict = Application(replace(service.service, strict=True))
    for told in (
        ask(strict, "/v1/recommend", asked),
        ask(service, "/v1/recommend", {**asked, "unknown": "error"}),
    ):
        assert (told.status, told.json["detail"]) == (404, refused)
    batch = ask(strict, "/v1/recommend/batch", {"questions": [NEW, asked]})
    assert batch.json["detail"] == f"{refused} - at `$.questions[1]`"
    assert "unknown" not in ask(strict, "/v1/recommend", NEW).json


def test_a_model_that_knows_users_by_their_events_leaves_attributes_out(folder):
    model = EASE().fit(pl.read_csv(folder / "clicks.csv"))
    service = Application(Service(StaticModel(model, "ease")))
    answer = ask(service, "/v1/recommend", NEW).json
    assert answer["unknown"] == ["user", "user_features.group"]
    assert answer["items"] == ask(service, "/v1/recommend", {"user": "new"}).json["items"]
    assert ask(service, "/v1/model").json["models"][0]["user_features"] == []
    told = ask(Application(replace(service.service, strict=True)), "/v1/recommend", NEW)
    why = "EASE cannot use user_features: it knows users by their events"
    assert (told.status, told.json["detail"]) == (422, why)


def test_the_card_and_the_description_say_which_attributes_can_be_given(service):
    card = ask(service, "/v1/model").json["models"][0]
    (column,) = card["user_features"]
    assert sorted(column.pop("values")) == ["g0", "g1", "g2"]
    assert column == {"name": "group", "kind": "categorical", "count": 3}
    schemas = ask(service, "/openapi.json").json["components"]["schemas"]
    for name in ("Recommend", "Score", "Explain"):
        given = schemas[name]["properties"]["user_features"]
        assert given["description"].startswith("Attributes of the user")
        assert given["maxProperties"] == schemas[name]["properties"]["context"]["maxProperties"]


def test_a_new_item_is_explained_by_the_items_whose_vector_is_like_its_own(folder, capsys):
    item = f"i{ITEMS}"  # of group 0, without events
    model = load(folder / "m.fmpair")
    assert groups_of(model.similar_items(item, n=5)["item"]) == {0}
    shown = printed(capsys, "explain", folder / "m.fmpair", "--user", "u0", "--item", item)
    service = Application(Service(LiveModels(folder / "m.fmpair")))
    answer = ask(service, "/v1/explain", {"user": "u0", "item": item}).json
    for terms in (shown.to_dicts(), answer["terms"]):
        of_titles = [term for term in terms if "titles" in term["item"]]
        assert len({term["item"] for term in of_titles}) == 1
        assert {term["query"] for term in of_titles} == {"user=u0", "group=g0"}
        like = of_titles[0]["item"].removeprefix("titles (like ").removesuffix(")").split(", ")
        assert len(like) == 2 and groups_of(like) == {0}
        total = sum(float(term["value"]) for term in terms)
        assert total == pytest.approx(answer["score"], abs=1e-5)
