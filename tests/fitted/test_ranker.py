"""A fitted model that scores by any means, answering as every other."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, load
from fmpair.data import as_dataset
from fmpair.errors import ModelFileError, OptionError, TrainingError, UnknownError
from fmpair.evaluation import evaluate
from fmpair.fitted import ranker
from fmpair.fitted.ranker import Ranker

FRAME = pl.DataFrame(
    {
        "user": ["ann", "ann", "bob", "bob", "cem"],
        "item": ["x", "y", "x", "z", "x"],
        "time": ["day", "night", "day", "night", "day"],
    }
)


@dataclass(frozen=True, eq=False)
class ByNumber:
    """Items by their number, the last first; by night the other way round."""

    items: int
    sign: float = 1.0
    scores_unknown_users: ClassVar[bool] = False
    asked: ClassVar[list] = []

    def scores(self, users, context):
        self.asked.append(len(users))
        row = self.sign * np.arange(self.items, dtype=np.float32)
        out = np.tile(row, (len(users), 1))
        if "time" in context.columns:
            out[(context["time"] == "night").fill_null(False).to_numpy()] *= -1
        return out

    def arrays(self):
        return {"sign": np.array([self.sign])}


@dataclass(frozen=True, eq=False)
class ByNumberForAnyone(ByNumber):
    scores_unknown_users: ClassVar[bool] = True


@dataclass(frozen=True)
class Recipe:
    sign: float = 1.0

    def fit(self, data: Any) -> Ranker:
        events = as_dataset(data)
        return Ranker.of(self, events, ByNumber(len(events.items), self.sign))

    def restore(self, arrays, space, seen):
        return ByNumber(len(space.items), float(arrays["sign"][0]))


MODEL = Recipe().fit(FRAME)
FOR_ANYONE = MODEL.replaced(scorer=ByNumberForAnyone(3))


def listed(model, user, **options):
    return model.recommend(user, **options)["item"].to_list()


def test_items_stand_as_the_scorer_says_without_what_was_seen():
    assert listed(MODEL, "cem") == ["z", "y"]
    assert listed(MODEL, "cem", exclude_seen=False) == ["z", "y", "x"]
    assert listed(MODEL, "cem", n=1) == ["z"]
    assert listed(MODEL, "cem", candidates=["y", "x"]) == ["y"]
    assert listed(MODEL, "cem", exclude=["z"]) == ["y"]


def test_the_scorer_hears_of_the_context():
    assert listed(MODEL, "cem", context={"time": "night"}) == ["y", "z"]
    asked = pl.DataFrame({"user": ["cem", "cem"], "time": ["day", "night"]})
    assert MODEL.recommend(asked, 1)["item"].to_list() == ["z", "y"]


def test_a_context_or_value_that_does_not_exist_is_named():
    with pytest.raises(UnknownError, match=r"context 'tiem'. Did you mean 'time'"):
        MODEL.recommend("ann", context={"tiem": "day"})
    with pytest.raises(UnknownError, match=r"'nigth'. Did you mean 'night'"):
        MODEL.recommend("ann", context={"time": "nigth"})


def test_who_is_unknown_gets_the_most_popular_items_where_the_scorer_has_no_answer():
    with pytest.raises(UnknownError, match=r"user 'bobb'. Did you mean 'bob'"):
        MODEL.recommend("bobb")
    assert listed(MODEL, "dee", unknown="features")[0] == "x"
    silent = Recipe().fit(Dataset.from_frame(FRAME).with_users({"user": ["ann", "silent"]}))
    assert listed(silent, "silent")[0] == "x"


def test_a_scorer_with_an_answer_for_strangers_is_asked():
    night = {"context": {"time": "night"}}
    assert listed(FOR_ANYONE, "dee", unknown="features") == ["z", "y", "x"]
    assert listed(FOR_ANYONE, "dee", unknown="features", **night) == ["x", "y", "z"]
    # a usual user in no situation
    assert listed(FOR_ANYONE, "dee", unknown="popular", **night) == ["z", "y", "x"]


def test_scores_of_given_pairs_are_those_of_the_lists():
    out = MODEL.recommend(["ann", "cem"], context={"time": "night"})
    alone = MODEL.score(out.select("user", "item", "time"))
    assert alone["score"].to_list() == out["score"].to_list()
    with pytest.raises(UnknownError, match="item 'w'"):
        MODEL.score({"user": ["ann"], "item": ["w"]})


def test_no_more_rows_than_memory_allows_are_scored_at_once(monkeypatch):
    whole = MODEL.recommend(["ann", "bob", "cem"] * 3)
    monkeypatch.setattr(ranker, "MAX_AT_ONCE", 2)
    ByNumber.asked.clear()
    assert MODEL.recommend(["ann", "bob", "cem"] * 3).equals(whole)
    MODEL.score(FRAME)
    assert max(ByNumber.asked) == 2 and sum(ByNumber.asked) == 9 + len(FRAME)


def test_scores_that_are_not_numbers_are_refused():
    with pytest.raises(TrainingError, match="Recipe returned NaN scores"):
        MODEL.replaced(scorer=ByNumber(3, np.nan)).recommend("ann")


def test_attributes_of_new_users_are_refused():
    for ask in (MODEL.recommend, MODEL.answer):
        with pytest.raises(OptionError, match="Recipe cannot use user_features: it knows users"):
            ask("dee", user_features={"age": 3}, unknown="features")


def test_what_a_scorer_cannot_tell_is_said():
    for ask, what in (
        (lambda: MODEL.similar_items("x"), "compare items"),
        (lambda: MODEL.similar_users("ann"), "compare users"),
        (lambda: MODEL.explain("ann", "x"), "explain scores"),
    ):
        with pytest.raises(OptionError, match=f"Recipe cannot {what}"):
            ask()


def test_it_is_judged_as_the_function_it_is_even_over_other_numbers():
    test = pl.DataFrame({"user": ["cem", "ann"], "item": ["y", "z"], "time": ["night", "day"]})
    turned = Dataset.from_frame(FRAME[::-1])  # the same ids, numbered the other way round
    for train in (Dataset.from_frame(FRAME), turned):
        assert evaluate(MODEL, train, test, metrics=["mrr@10"]).means == {"mrr@10": 1}


def test_an_item_that_the_model_lacks_is_not_listed():
    more = pl.concat([FRAME, pl.DataFrame({"user": ["cem"], "item": ["w"], "time": ["day"]})])
    test = pl.DataFrame({"user": ["ann"], "item": ["w"], "time": ["day"]})
    assert evaluate(MODEL, more, test, metrics=["recall@10"]).means == {"recall@10": 0}


def test_lists_come_in_the_kind_of_frame_that_was_given():
    pd = pytest.importorskip("pandas")
    out = Recipe().fit(FRAME.to_pandas()).recommend("cem")
    assert isinstance(out, pd.DataFrame) and out["item"].tolist() == ["z", "y"]


def test_a_recipe_of_ones_own_is_saved_and_found_again_while_its_module_is_there(
    tmp_path, monkeypatch
):
    Recipe(sign=-1.0).fit(FRAME).save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert isinstance(again, Ranker) and again.recipe == Recipe(sign=-1.0)
    assert listed(again, "cem") == ["y", "z"]
    monkeypatch.delitem(__import__("sys").modules, Recipe.__module__)
    with pytest.raises(ModelFileError, match=f"import {Recipe.__module__} first"):
        load(tmp_path / "m")


def test_a_ranker_says_what_it_is():
    assert repr(MODEL) == "Ranker(Recipe, 3 users, 3 items)"
