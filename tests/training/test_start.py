"""Training starts from a content profile where items have lists or vectors."""

import numpy as np
import pytest
from content_shop import GROUPS, ITEMS, NEW, shop

from fmpair import Dataset, FMPair
from fmpair.engine.contract import Parameters
from fmpair.engine.item_side import item_sides
from fmpair.solvers.ridge import Design
from fmpair.threads import blas_on
from fmpair.training.loop import Task
from fmpair.training.start import _most_likely, directions, initial

PLAIN = FMPair(factors=8, epochs=3, history=0, order=2, times=False, threads=1)


def start_of(recipe: FMPair, data: Dataset) -> tuple[Task, Parameters]:
    task = Task.of(recipe, recipe, data)
    return task, initial(recipe, task.space, task.problem)


@pytest.mark.parametrize("column", ["words", "text"])
def test_before_any_epoch_new_items_rank_by_the_content_that_a_user_chose(column):
    data = shop(column)
    task, first = start_of(PLAIN, data)
    own = np.zeros_like(first.items)
    rows = task.problem.item_rows
    sides, _ = item_sides(own, first.item_bias, rows, first.features, first.feature_bias)
    number = task.space.items.ids.to_numpy()
    new = np.flatnonzero(number >= ITEMS - NEW)
    best = new[np.argsort(-(first.users @ sides[new].T), axis=1)[:, :5]]
    group = task.space.users.ids.to_numpy() % GROUPS
    assert (number[best] % GROUPS == group[:, None]).all()


def test_training_keeps_new_items_in_the_order_of_their_content():
    model = PLAIN.fit(shop("words"))
    new = list(range(ITEMS - NEW, ITEMS))
    best = [model.recommend(u, n=5, candidates=new)["item"] % GROUPS == u % GROUPS for u in (0, 5)]
    assert all(found.all() for found in best)


def test_content_that_predicts_nothing_adds_nothing():
    task, first = start_of(PLAIN, shop("words", shuffled=True))
    assert not first.features.any()
    assert (first.users == initial(PLAIN, task.space).users).all()


def test_random_vectors_add_nothing_although_some_directions_of_them_fit_known_items():
    rng = np.random.default_rng(4)
    users, taste = rng.normal(size=(2, 300, 4))
    chosen = np.argsort(-(users @ taste.T + rng.gumbel(size=(300, 300))), axis=1)[:, :20]
    events = {"user": np.repeat(np.arange(300), 20), "item": chosen.ravel()}
    items = {"item": np.arange(300), "noise": rng.normal(size=(300, 64))}
    _, first = start_of(PLAIN, Dataset.from_frame(events, items=items))
    assert not first.features.any()
    _, first = start_of(PLAIN, Dataset.from_frame(events, items=items | {"taste": taste}))
    longest = np.abs(first.features).max(axis=1)
    assert longest[:64].max() < 1e-9 < longest[64:].min()


def test_pairs_start_at_random_as_before():
    recipe = FMPair.fast(history=0, order=2, times=False)
    _, first = start_of(recipe, shop("words"))
    assert not first.features.any()


def test_the_start_has_the_same_bits_on_any_number_of_threads():
    data, found = shop("words"), []
    for threads in (1, 2):
        with blas_on(threads):
            found.append(start_of(PLAIN, data)[1])
    assert all((a == b).all() for a, b in zip(*found))


def test_lists_that_say_nothing_about_choices_are_held_as_other_attributes_are():
    shares = []
    for shuffled in (False, True):
        task, _ = start_of(PLAIN, shop("words", shuffled=shuffled))
        shares.append((task.problem.item_groups.sharing[0], (task.settings.features > 0).all()))
    assert shares == [(0.0, True), (0.5, False)]


# An item is 1 ahead of its competitor in three of four events, and 1 behind in one: ln 3.
LEADS = np.array([[1, 0], [1, 0], [1, 0], [0, 1]], np.float32)


def test_the_scale_of_scores_is_the_likeliest_one():
    assert _most_likely(LEADS, np.array([1, 1]), high=5.0) == pytest.approx(np.log(3), rel=1e-5)


def test_a_competitor_that_is_drawn_twice_counts_twice():
    twice = LEADS[:, [0, 1, 1]]
    wanted = _most_likely(twice, np.array([1, 1, 1]), high=5.0)
    assert _most_likely(LEADS, np.array([1, 2]), high=5.0) == pytest.approx(wanted, rel=1e-5)
    assert wanted > 1.2 * np.log(3)


@pytest.mark.parametrize(
    ("scores", "scale"), [(LEADS[:3], 5.0), (LEADS[3:], 0.0), (np.ones((3, 2), np.float32), 0.0)]
)
def test_the_scale_stays_within_its_bounds(scores, scale):
    assert _most_likely(scores, np.array([1, 1]), high=5.0) == pytest.approx(scale, rel=1e-4)


def test_directions_from_a_gram_matrix_are_those_of_products_with_all_items(monkeypatch):
    task, _ = start_of(PLAIN, shop("text"))
    content = task.design(task.content)
    chosen, found = np.arange(task.seen.size) < 40, []  # of all groups
    for through_gram in (True, False):
        if not through_gram:
            monkeypatch.setattr(Design, "twice_of_sums", lambda *_: None)
        rng = np.random.default_rng(0)
        found.append(directions(content, task.seen, chosen, GROUPS - 1, rng))
    spaces = [basis @ basis.T for basis in found]  # the same, from other random directions
    assert np.allclose(*spaces, atol=0.05) and np.abs(spaces[0]).max() > 0.1
