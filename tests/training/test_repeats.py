"""Vectors by which earlier items raise themselves: exact for the item, small for all others."""

import dataclasses

import numpy as np
import polars as pl
import pytest

import fmpair
from fmpair import Dataset, FMPair
from fmpair.errors import ModelFileError, OptionError
from fmpair.training import update
from fmpair.training.loop import task_of
from fmpair.training.repeats import CODES, gain_of, with_repeats, without_repeats

REPEAT, ITEMS, FACTORS = 2.0, 300, 8
HISTORY = {"last": 3, "fade": 1.0}
COLOURS = pl.DataFrame(
    {"item": [f"i{n}" for n in range(ITEMS)], "colour": ["red", "blue", "green"] * (ITEMS // 3)}
)


def clicks(users=150, steps=8):
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "user": np.repeat([f"u{n}" for n in range(users)], steps),
            "item": [f"i{n}" for n in rng.integers(0, ITEMS, users * steps)],
            "timestamp": np.tile(np.arange(steps), users),
        }
    )


def fitted(repeat, **options):
    # the default regularisation depends on whether earlier items gain
    options = {"regularization": 0.1, "epochs": 3, **options}
    recipe = FMPair(factors=FACTORS, history={**HISTORY, "repeat": repeat}, **options)
    return recipe.fit(Dataset.from_frame(clicks(), items=COLOURS))


@pytest.fixture(scope="module", params=[{}, {"order": 3, "factors3": 4}], ids=["2", "3"])
def pair(request):
    """The same fit without repeats and with them."""
    return fitted(0, **request.param), fitted(REPEAT, **request.param)


def scores(model, history):
    lists = model.recommend(history=history, n=ITEMS, exclude_seen=False).sort("item")
    return lists["score"].to_numpy(), lists["item"].to_list()


@pytest.fixture(scope="module")
def gain(pair):
    """What the latest item should gain."""
    return gain_of(pair[0].replaced(space=pair[1].space), visits=False)


def test_the_gain_is_a_share_of_the_distance_from_a_usual_score_to_the_best_one(pair, gain):
    plain, asked = pair[0], pl.DataFrame({"user": pair[0].user_ids})
    scores = plain.query_vectors(asked) @ plain.item_vectors.T + plain.item_constants
    reaches = scores.max(1) - np.median(scores, 1)
    assert gain / REPEAT == pytest.approx(np.median(reaches), rel=0.05)  # of a sample of users


def test_an_item_raises_itself_by_the_gain_and_others_by_less(pair, gain):
    for item in ("i3", "i4", "i250"):
        (without, items), (raised, _) = (scores(model, [item]) for model in pair)
        more, own = (raised - without) / gain, items.index(item)
        assert more[own] == pytest.approx(1, abs=1e-3)
        assert np.abs(np.delete(more, own)).max() < 0.75
        assert np.delete(more, own).std() < 0.2


def test_the_gain_of_an_earlier_item_has_its_weight(pair, gain):
    (without, items), (raised, _) = (scores(model, ["i3", "i4"]) for model in pair)
    more = dict(zip(items, raised - without))
    assert more["i4"] > more["i3"] > 0.2 * gain


def test_scores_stay_one_inner_product(pair):
    model, asked = pair[1], pl.DataFrame({"user": ["u1", "u2"]})
    product = model.query_vectors(asked) @ model.item_vectors.T + model.item_constants
    listed = model.recommend(asked, n=ITEMS, exclude_seen=False)
    number = {item: n for n, item in enumerate(model.item_ids.tolist())}
    row = {"u1": 0, "u2": 1}
    expected = [product[row[user], number[item]] for user, item in listed[["user", "item"]].rows()]
    np.testing.assert_allclose(listed["score"], expected, atol=1e-4)


def test_the_terms_add_up_to_the_score_of_a_visitor(pair):
    model, history = pair[1], ["i3", "i4"]
    terms = model.explain(None, "i4", history=history)
    values, items = scores(model, history)
    assert terms["value"].sum() == pytest.approx(values[items.index("i4")], abs=1e-4)
    with pytest.raises(OptionError, match="give user, or history of a visitor"):
        model.explain(None, "i4")


def test_similar_items_stay_similar(pair):
    without, raised = (model.item_similarity(5) for model in pair)
    assert np.quantile(np.abs(raised - without), 0.9) < 0.1


def test_what_is_added_can_be_taken_back(pair, gain):
    plain, model = pair
    taken, gained = without_repeats(model.parameters, model.space, model.item_rows)
    assert gained == pytest.approx(gain, rel=1e-4)
    for name, table in plain.parameters._asdict().items():
        np.testing.assert_allclose(getattr(taken, name), table, atol=1e-4, err_msg=name)
    again = with_repeats(taken, model.space, model.item_rows, gained)
    np.testing.assert_allclose(again.query, model.parameters.query, atol=1e-3)


def test_updates_learn_without_repeats_and_add_them_again(pair):
    model = pair[1]
    news = {"user": ["u1", "new"], "item": ["i7", "new item"], "timestamp": [99, 99]}
    updated = model.recipe.update(model, pl.DataFrame(news))
    assert updated.item_vectors.shape[1] == model.item_vectors.shape[1]
    lists = updated.recommend(history=["new item"], n=1, exclude_seen=False)
    assert lists["item"].to_list() == ["new item"]
    folded = model.recipe.fold_in(
        model, pl.DataFrame({"user": ["x"], "item": ["i7"], "timestamp": [9]})
    )
    assert folded.recommend("x", n=1, exclude_seen=False)["item"].to_list() == ["i7"]


def test_vectors_without_codes_are_not_updated(pair):
    plain, model = pair
    space = dataclasses.replace(plain.space, history=model.space.history)
    news = pl.DataFrame({"user": ["u1"], "item": ["i7"], "timestamp": [99]})
    with pytest.raises(ModelFileError, match="have no codes of repeats"):
        model.recipe.update(plain.replaced(space=space), news)


def test_codes_of_nothing_are_not_updated(pair):
    model = pair[1]
    items = model.parameters.items.copy()
    items[:, FACTORS : FACTORS + CODES] = 0
    damaged = model.replaced(parameters=model.parameters._replace(items=items))
    news = pl.DataFrame({"user": ["u1"], "item": ["i7"], "timestamp": [99]})
    with pytest.raises(ModelFileError, match="have no codes of repeats"):
        model.recipe.update(damaged, news)


def test_the_regularisation_of_an_update_is_that_of_the_fit():
    recipe = FMPair(factors=FACTORS, epochs=1, history={"last": 1, "repeat": REPEAT})
    model = recipe.fit(clicks(users=100, steps=30))
    news = Dataset.from_frame(pl.DataFrame({"user": ["u1"], "item": ["i7"], "timestamp": [99]}))
    fitted = task_of(recipe, recipe, Dataset.from_frame(clicks(users=100, steps=30)))
    updated, _ = update._continued(model, recipe, news, None)
    assert updated.settings.user == pytest.approx(fitted.settings.user, rel=0.05)


def test_models_with_repeats_are_stored(pair, tmp_path):
    pair[1].save(tmp_path / "m.fmpair")
    loaded = fmpair.load(tmp_path / "m.fmpair")
    np.testing.assert_array_equal(scores(loaded, ["i3"])[0], scores(pair[1], ["i3"])[0])
    assert loaded.parameters.items.shape[1] >= FACTORS + CODES


def test_any_number_of_threads_gives_the_same_bits():
    one, two = (fitted(REPEAT, threads=threads).parameters for threads in (1, 2))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one, two))


@pytest.mark.parametrize(("given", "said"), [
    ({"repeat": -1}, "repeat of a field must be 0 or more, not -1"),
    ({"repeat": 2, "of": ["colour"]}, "repeat requires 'item' in of"),
    ({"repeat": 2, "shared": True}, "cannot be combined with shared"),
])  # fmt: skip
def test_repeats_that_make_no_sense_are_refused(given, said):
    with pytest.raises(OptionError, match=said):
        FMPair(history={**HISTORY, **given})


def test_cosines_have_no_repeats():
    with pytest.raises(OptionError, match="repeat of history and temperature cannot be combined"):
        FMPair(history={**HISTORY, "repeat": 2}, temperature=0.1)
