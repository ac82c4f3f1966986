"""Content is learned by regression: it predicts new items, and those of few events in part."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from content_shop import GROUPS, ITEMS, NEW, USERS, shop

from fmpair import Dataset, Field, FMPair, matrices
from fmpair.arrays import distinct_pairs, tally
from fmpair.device import layout_on
from fmpair.engine.contract import Parameters
from fmpair.engine.item_side import item_sides
from fmpair.fitted.recommender import Recommender
from fmpair.training import loop, trials
from fmpair.training.content import (
    Choices,
    design_of,
    folded,
    held_out,
    regressed,
    settled,
    worth_of,
)
from fmpair.training.loop import Task, begin, started, train

RECIPE = FMPair(factors=8, epochs=3, history=0, order=2, times=False, threads=1)


def sides(task: Task, parameters: Parameters, by_steps: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors and constants of items, by the attributes of steps only or by all."""
    p, rows = parameters, (task.learned if by_steps else task.problem).item_rows
    return item_sides(p.items, p.item_bias, rows, p.features, p.feature_bias)


BOTH = ("words", "text", "colour")


@pytest.mark.parametrize("columns", [("words",), ("text",), BOTH], ids=str)
def test_regression_alone_changes_no_score_of_known_items(columns, monkeypatch):
    monkeypatch.setattr("fmpair.training.content.settled", lambda learned, *_: learned)
    run = started(Task.of(RECIPE, RECIPE, shop(*columns)))
    *_, last = run
    task, learned, model = run.task, run.parameters(), last.recommender()
    rows, known = task.learned.item_rows, task.problem.drawn
    found, wanted = sides(task, model.parameters, False), sides(task, learned, True)
    assert np.allclose(found[0][known], wanted[0][known], atol=1e-5)
    assert np.allclose(found[1][known], wanted[1][known], atol=1e-5)
    assert model.parameters.features.any() and len(rows.column) == ITEMS * ("colour" in columns)


@pytest.mark.parametrize("columns", [("words",), ("text",), ("words", "text")], ids=str)
def test_new_items_are_found_by_lists_and_by_vectors(columns):
    model = RECIPE.fit(shop(*columns))
    new = list(range(ITEMS - NEW, ITEMS))
    for user in range(8):
        best = model.recommend(user, n=5, candidates=new)["item"]
        assert (best % GROUPS == user % GROUPS).all()


@pytest.mark.parametrize("columns", [("words",), ("text",), BOTH], ids=str)
def test_a_trained_model_scores_as_before_items_with_few_events_are_shrunk(columns, monkeypatch):
    monkeypatch.setattr("fmpair.training.content.settled", lambda learned, *_: learned)
    run = started(Task.of(RECIPE, RECIPE, shop(*columns)))
    for _ in run:
        pass
    trained, fitted = run.trained(), run.recommender(run.parameters())
    known = run.task.problem.drawn
    assert np.allclose(trained.item_vectors[known], fitted.item_vectors[known], atol=1e-4)
    assert np.allclose(trained.item_constants[known], fitted.item_constants[known], atol=1e-4)
    assert not trained.parameters.items[run.task.times == 0].any()


def test_a_design_is_made_once_for_all_models_of_a_task(monkeypatch):
    made, real = [], loop.design_of
    monkeypatch.setattr(loop, "design_of", lambda *a: made.append(a) or real(*a))
    task = Task.of(RECIPE, RECIPE, shop("text"))
    first = task.initial()
    for penalty in (0.1, 0.2):
        changed = task.with_options(replace(RECIPE, regularization={"user": penalty}))
        run = started(changed, first=first)
        for _ in run:
            pass
        run.recommender(run.parameters())
        assert changed.settings.user != task.settings.user
    assert len(made) == 1


def test_only_the_fit_regresses_and_not_the_trials_of_the_regularisation(monkeypatch):
    regressions, made, trials_made = [], [], []
    for module, name, log in (
        (loop, "regressed", regressions),
        (loop, "design_of", made),
        (trials, "started", trials_made),
    ):
        real = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *a, log=log, real=real, **k: log.append(a) or real(*a, **k)
        )
    monkeypatch.setattr(trials, "L2_EVENTS", 10)
    replace(RECIPE, regularization=None).fit(shop("text"))
    assert len(trials_made) >= 3 and len(regressions) == 1
    assert len(made) == 2  # for the trials and for the fit


@pytest.mark.parametrize("columns", [("words",), ("text",), BOTH], ids=str)
def test_a_regression_on_a_device_is_that_of_the_threads(columns, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(matrices, "LARGE", 1)
    task = Task.of(RECIPE, RECIPE, shop(*columns))
    learned = started(task).parameters()

    def found(device: str) -> Parameters:
        with layout_on(device):
            design = design_of(task.problem, task.space.item, task.content, 1)
            return regressed(learned, design, task.seen, 0)

    plain, on_device, again = found("cpu"), found("torch"), found("torch")
    assert plain.features.any()
    for one, other, third in zip(plain, on_device, again):
        assert np.allclose(one, other, rtol=1e-3, atol=1e-4)
        assert other.tobytes() == third.tobytes()


@pytest.mark.parametrize("columns", [("text",), BOTH], ids=str)
def test_fits_with_vectors_on_a_device_give_the_same_bits_again(columns, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(matrices, "LARGE", 1)
    recipe = replace(RECIPE, device="torch")
    one, two = (recipe.fit(shop(*columns)).parameters for _ in range(2))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one, two))
    assert one.features.any()


def test_folding_undoes_the_regression():
    task = Task.of(RECIPE, RECIPE, shop(*BOTH))
    rng = np.random.default_rng(1)
    first = started(task).parameters()
    first = first._replace(item_bias=rng.normal(size=ITEMS).astype(np.float32))
    times = tally(task.problem.item, ITEMS)
    design = design_of(task.problem, task.space.item, task.content, 1)
    found = regressed(first, design, task.seen, 0, earlier=np.ones(ITEMS, bool))
    again = folded(found, task.problem, task.space.item, task.content)
    known = times > 0
    assert np.abs(found.features).max() > 0.01
    assert np.allclose(again.items[known], first.items[known], atol=1e-5)
    assert np.allclose(again.item_bias[known], first.item_bias[known], atol=1e-4)
    assert np.allclose(again.features, first.features, atol=1e-6)


def test_a_continued_training_starts_from_the_same_scores():
    data = shop(*BOTH)
    model, task = RECIPE.fit(data), Task.of(RECIPE, RECIPE, data)
    begun = begin(task, model.parameters).snapshot()
    for found, wanted in zip(sides(task, begun, True), sides(task, model.parameters, False)):
        assert np.allclose(found, wanted, atol=1e-4)


def test_an_update_learns_a_new_item_and_its_content():
    data, new = shop("words"), ITEMS - 1
    model = RECIPE.fit(data)
    lovers = list(range((new + 1) % GROUPS, USERS, GROUPS))  # of another group than its words
    events = pl.DataFrame({"user": lovers, "item": new})
    updated = RECIPE.update(model, Dataset.from_frame(events))
    task, known = Task.of(RECIPE, RECIPE, data), np.arange(ITEMS - NEW)

    def scores(model: Recommender) -> np.ndarray:
        vectors, constants = sides(task, model.parameters, False)
        return model.parameters.users @ vectors.T + constants

    before, after = scores(model), scores(updated)
    place = int(model.space.items.numbers(pl.Series([new]))[0])
    gained = (after - before)[:, place]
    mine = np.isin(model.space.users.ids.to_numpy(), lovers)
    assert gained[mine].mean() > gained[~mine].mean() + 0.1
    at = model.space.items.numbers(pl.Series(known))
    assert np.corrcoef(before[:, at].ravel(), after[:, at].ravel())[0, 1] > 0.9


@pytest.mark.parametrize(
    "change",
    [
        {"regularization": {"words": 0.01}},
        {"regularization": {"item_features": 0.01}},
        {"fields": {"words": Field(regularization=0.01)}},
        {"sharing": 0.5},
        {"loss": "bpr"},
        {"temperature": 0.2},
        {"order": 3},
    ],
    ids=str,
)
def test_fields_with_options_of_their_own_are_learned_by_steps(change):
    data = shop("words")
    assert Task.of(RECIPE, RECIPE, data).content == [True]
    recipe = replace(RECIPE, **change)
    assert Task.of(recipe, recipe, data).content == [False]


def test_lists_of_more_values_than_factors_get_twice_as_many_factors(monkeypatch):
    monkeypatch.setattr("fmpair.training.defaults.FACTORS", 4)
    usual = replace(RECIPE, factors=None)

    def factors(recipe: FMPair, column: str) -> int:
        return next(train(recipe, recipe, shop(column))).recommender().parameters.users.shape[1]

    assert factors(usual, "words") == 8  # 48 words
    assert factors(usual, "text") == 4
    assert factors(usual, "colour") == 4
    assert factors(RECIPE, "words") == 8


def by_taste(**columns: list) -> Dataset:
    """Users of two tastes for halves of the items; a tenth of the table has no events."""
    people, items = 100, 40
    events = [(u, i) for u in range(90) for i in range(items) if i % 2 == u % 2 and (u + i) % 3]
    users = pl.DataFrame({"user": range(people), **columns})
    return Dataset.from_frame(
        pl.DataFrame(events, schema=["user", "item"], orient="row"), users=users
    )


TASTE = [f"taste {u % 2}" for u in range(100)]


def test_unknown_users_are_ranked_by_their_attributes():
    model = RECIPE.fit(by_taste(kind=TASTE))
    for user in range(90, 100):
        assert (model.recommend(user, n=10)["item"] % 2 == user % 2).all()
    for taste in range(2):
        found = model.recommend(1000, n=10, user_features={"kind": f"taste {taste}"})
        assert (found["item"] % 2 == taste).all()


def test_known_users_keep_the_vectors_they_were_learned_with():
    run = started(Task.of(RECIPE, RECIPE, by_taste(kind=TASTE)))
    *_, last = run
    task, learned, found = run.task, run.parameters(), last.recommender().parameters
    rows = task.problem.user_rows
    before, after = (p.users + rows.dot(p.query) for p in (learned, found))
    assert np.allclose(before[:90], after[:90], atol=1e-5)
    assert np.abs(found.query - learned.query).max() > 0.01


def test_attributes_that_say_little_of_users_predict_little():
    noise = np.random.default_rng(0).permutation(100)
    kinds = (TASTE, [f"k{n % 5}" for n in noise])
    found = [RECIPE.fit(by_taste(kind=kind)).parameters.query for kind in kinds]
    much, little = (np.linalg.norm(query, axis=1).mean() for query in found)
    assert little < 0.3 * much


def test_an_update_keeps_what_attributes_predict():
    model = RECIPE.fit(by_taste(kind=TASTE))
    updated = RECIPE.update(model, pl.DataFrame({"user": [0, 1], "item": [2, 3]}))
    for user in range(90, 100):
        assert (updated.recommend(user, n=10)["item"] % 2 == user % 2).all()


def test_items_also_follow_from_the_users_who_chose_them():
    rng = np.random.default_rng(0)
    users = rng.normal(size=(30, 4)).astype(np.float32)
    seen = distinct_pairs(np.arange(30), np.arange(30) % 3, 30)
    known, chosen = np.arange(3), np.arange(30)[:, None] % 3 == np.arange(3)
    squares = users.T @ users
    fitted = np.linalg.solve(squares + np.trace(squares) / 4 * np.eye(4), users.T @ chosen).T
    learned = rng.normal(size=(3, 4)).astype(np.float32)
    scale = np.linalg.norm(learned) / np.linalg.norm(fitted)
    found = Choices(learned, known, users, seen, 1)
    assert np.allclose(found.items, fitted * scale, atol=1e-5)
    sums = users.T @ chosen
    assert np.allclose(found.of(sums.T.astype(np.float32)), found.items, atol=1e-5)


def test_the_fewer_events_the_more_of_the_prediction_is_added():
    learned, predicted = np.full((3, 2), 2.0, np.float32), np.ones((3, 2), np.float32)
    found = settled(learned, predicted, np.array([1, 3, 97]), 3.0)
    assert np.allclose(found[:, 0], [2.75, 2.5, 2.03])
    assert np.allclose(settled(learned, predicted, np.full(3, np.inf), 3.0), learned)


@pytest.mark.parametrize(("tells", "least", "most"), [(True, 3.0, 10.0), (False, 0.0, 0.3)])
def test_a_prediction_is_worth_more_events_if_it_tells_what_items_are(tells, least, most):
    """Users choose items near them; learned items are the means of few users that chose them."""
    rng, k = np.random.default_rng(0), 8
    truth = rng.normal(size=(400, k)).astype(np.float32)
    truth /= np.linalg.norm(truth, axis=1)[:, None]  # no item is popular
    users = rng.normal(size=(600, k)).astype(np.float32)
    chance = users @ truth.T * 4 + rng.gumbel(size=(600, 400))
    user = np.repeat(np.arange(600), 3)
    item = np.argsort(-chance, axis=1)[:, :3].ravel()
    seen = distinct_pairs(user, item, 600)
    events = np.bincount(seen.column, minlength=400)
    known = np.flatnonzero(events)
    sums = np.zeros((400, k), np.float32)
    np.add.at(sums, seen.column, users[seen.owner])
    learned = sums / (events + 4)[:, None]
    predicted = truth if tells else rng.permutation(truth)
    parameters = started(Task.of(RECIPE, RECIPE, shop("words"))).parameters()
    parameters = parameters._replace(
        users=users, items=learned, item_bias=np.zeros(400, np.float32)
    )
    fits = Choices(learned[known], known, users, seen, 1)
    worth = worth_of(predicted[known], known, events[known], parameters, seen, fits, 0)
    assert least <= worth <= most


@pytest.mark.parametrize("column", ["words", "text"])
def test_an_item_is_predicted_by_others_alone(column):
    task = Task.of(RECIPE, RECIPE, shop(column))
    design = design_of(task.problem, task.space.item, task.content, 1)
    wanted = np.random.default_rng(0).normal(size=(ITEMS, 4)).astype(np.float32)
    none = np.zeros((design.columns, 4), np.float32)
    before = held_out(design, wanted, 0.1, none, design.back(wanted), 0)
    wanted[0] += 100
    after = held_out(design, wanted, 0.1, none, design.back(wanted), 0)
    changed = np.abs(after - before).max(axis=1) > 1e-3
    assert not changed[0] and changed.any()


def test_an_update_keeps_a_new_item_of_one_event_near_its_content():
    data = shop("words")
    model, new = RECIPE.fit(data), ITEMS - 1
    stranger = next(u for u in range(USERS) if u % GROUPS != new % GROUPS)
    updated = RECIPE.update(model, pl.DataFrame({"user": [stranger], "item": [new]}))
    lovers = [u for u in range(USERS) if u % GROUPS == new % GROUPS]
    among = list(range(ITEMS - NEW, ITEMS))
    first = [updated.recommend(u, n=1, candidates=among)["item"][0] % GROUPS for u in lovers]
    assert np.mean(np.array(first) == new % GROUPS) > 0.9
