"""New users by their attributes and new items by their vectors: Python, the shell, the service.

Users of three groups choose the items of their group. The vectors of items tell the groups apart.
"""

import io

import numpy as np
import polars as pl
import pytest
from asking import ask

from fmpair import load
from fmpair.cli import run
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
    answer = ask(service, "/v1/recommend", {"user": known, "n": 5}).json
    assert groups_of(ranked["item"] for ranked in answer["items"]) == wanted


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
