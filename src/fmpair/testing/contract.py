"""The contract of models: rules that every model keeps, one method each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from fmpair.data import Dataset, as_dataset
from fmpair.errors import OptionError, UnknownError
from fmpair.fitted import recipe as option
from fmpair.fitted.recommender import Recommender
from fmpair.models.catalog import load
from fmpair.testing.known_answers import left_out, two_tastes

TOLERANCE = 1e-5
FIRST_TIME = 1_700_000_000  # seconds since 1970


@dataclass(frozen=True)
class ModelContract:
    """The rules for the recipes that `make()` returns; `check()` tests them.

    make: returns a recipe that fits tiny data quickly.
    personal: whether the model must distinguish two tastes.
    exact: whether a seed gives the same scores each time.
    tables: whether the model fits data with items without events.
    timed: whether the model fits only events with times.
    attributes: whether the model fits only items with attributes.

        @pytest.mark.parametrize("rule", RULES)
        def test_my_model_keeps(rule):
            ModelContract(lambda: MyModel(factors=4)).check(rule)
    """

    make: Callable[[], Any]
    personal: bool = True
    exact: bool = True
    tables: bool = True
    timed: bool = False
    attributes: bool = False

    def check(self, *rules: str) -> None:
        """Test these rules, all by default; AssertionError at the first that is broken."""
        for rule in rules or RULES:
            getattr(self, rule)()

    def a_recipe_is_not_changed_by_fitting(self) -> None:
        recipe, again = self.make(), self.make()
        _require(is_dataclass(recipe), "a recipe must be a (frozen) dataclass")
        recipe.fit(self._tastes())
        _require(recipe == again, "fit must not change the recipe")

    def the_data_are_not_changed_by_fitting(self) -> None:
        data = self._tastes()
        before = data.frame().clone()
        self.make().fit(data)
        _require(data.frame().equals(before), "fit must not change the events")

    def a_frame_fits_as_a_dataset_does(self) -> None:
        if self.attributes:
            return  # a frame of events has none
        data = self._tastes()
        from_dataset, from_frame = (_scores(self.make().fit(d)) for d in (data, data.frame()))
        _require(
            from_dataset.shape == from_frame.shape, "a frame and a Dataset give different shapes"
        )
        if self.exact:
            _require_same(from_dataset, from_frame, "a frame and a Dataset of the same events")

    def one_seed_gives_the_same_scores(self) -> None:
        if self.exact:
            ours, again = (_scores(self.make().fit(self._tastes())) for _ in range(2))
            _require(np.array_equal(ours, again), "the same recipe and data give different scores")

    def no_score_depends_on_the_number_of_threads(self) -> None:
        if self.exact and "threads" in {field.name for field in fields(self.make())}:
            single, several = (
                _scores(replace(self.make(), threads=t).fit(self._tastes())) for t in (1, 3)
            )
            _require(np.array_equal(single, several), "scores depend on the number of threads")

    def every_pair_has_a_finite_score(self) -> None:
        model = self._model
        _require(bool(np.isfinite(_scores(model)).all()), "scores must be finite")
        pairs = self._tastes().frame().head(7)
        scored = model.score(pairs)
        _require(scored.columns == [*pairs.columns, "score"], "score must add a column `score`")
        _require(bool(scored["score"].is_finite().all()), "score must return finite numbers")

    def lists_are_ordered_and_leave_out_what_was_seen(self) -> None:
        data = self._tastes()
        model = self.make().fit(data)
        out = model.recommend(["u0", "u1"], 4)
        _require(out.columns == ["user", "item", "score", "rank"], f"columns are {out.columns}")
        for user in ("u0", "u1"):
            ranked = out.filter(pl.col("user") == user)
            _require(ranked["rank"].to_list() == [1, 2, 3, 4], "n=4 must give the ranks 1 to 4")
            _require(ranked["score"].is_sorted(descending=True), "the best item must be first")
        both = out.join(data.frame(), on=["user", "item"], how="semi")
        _require(not len(both), "items seen in training must be left out")
        every = model.recommend("u0", 100, exclude_seen=False)
        _require(len(every) == len(data.items), "exclude_seen=False must list all items")

    def only_candidates_are_listed(self) -> None:
        model = self._model
        out = model.recommend("u0", 20, candidates=[1, 3, 5, 7], exclude=[7])
        _require(sorted(out["item"].to_list()) == [1, 3, 5], "candidates and exclude must hold")

    def a_score_is_the_one_listed(self) -> None:
        model = self._model
        out = model.recommend(["u0", "u5"], 5)
        alone = model.score(out.select("user", "item"))["score"].to_numpy()
        _require_same(alone, out["score"].to_numpy(), "score and recommend")

    def a_user_never_seen_is_refused_or_gets_a_usual_list(self) -> None:
        model = self._model
        try:
            model.recommend("stranger")
        except UnknownError as error:
            _require("stranger" in str(error), "the error must name the unknown user")
        else:
            raise AssertionError("an unknown user must raise UnknownError")
        for mode in ("features", "popular"):
            out = model.recommend("stranger", 3, unknown=mode)
            _require(len(out) == 3, f"unknown={mode!r} must return a list")

    def taste_decides(self) -> None:
        """On `two_tastes` the item left out of their own half must come first for each user."""
        if self.personal:
            out = self._model.recommend(n=1)
            number = out["user"].str.strip_prefix("u").cast(pl.Int64).to_numpy()
            right = (out["item"].to_numpy() == left_out(number)).mean()
            _require(right == 1, f"only {right:.0%} of the users get an item of their taste first")

    def a_saved_model_gives_the_same_scores(self) -> None:
        _require_saved(self._model)

    def options_make_the_same_recipe_again(self) -> None:
        recipe = self.make()
        again = option.recipe(type(recipe), option.plain(recipe))
        _require(option.plain(again) == option.plain(recipe), "the options give another recipe")

    def ids_may_be_anything(self) -> None:
        data = self._tastes()
        ids = pl.Series([f"a, {n} ü" for n in range(len(data.items))])
        frame = pl.DataFrame({"user": data.user * 10**9, "item": ids.gather(data.item)})
        out = self.make().fit(self._described(self._events(frame))).recommend(10**9, 2)
        _require(out["user"].to_list() == [10**9] * 2, "users must keep their own ids")
        _require(bool(out["item"].is_in(ids.to_list()).all()), "items must keep their own ids")

    def items_without_events_and_users_with_one_are_welcome(self) -> None:
        if not self.tables:
            return
        events = two_tastes().frame().vstack(pl.DataFrame({"user": ["single"], "item": [4]}))
        data = Dataset.from_frame(self._events(events), items={"item": [*range(20), 77]})
        data = self._described(data)
        data = data.with_users({"user": [*data.users.ids, "silent"]})
        model = self.make().fit(data)
        for user in ("single", "silent"):
            out = model.recommend(user, 30, exclude_seen=False)
            _require(len(out) == 21, "every item must be listed, even without events")
            _require(bool(out["score"].is_finite().all()), "all scores must be finite")

    def further_events_are_learned_from_or_refused(self) -> None:
        model = self._model
        more = pl.DataFrame({"user": ["late"] * 3 + ["u0"], "item": [1, 3, 77, 1]})
        grown = _grown(model.update, more, epochs=2)
        if grown is not None:
            _require(77 in grown.item_ids, "update must add new items")
            _require_valid_update(model, grown, more)

    def a_new_user_is_folded_in_or_refused(self) -> None:
        model = self._model
        few = pl.DataFrame({"user": ["late"] * 3, "item": [1, 3, 5]})
        before = _scores(model)
        grown = _grown(model.fold_in, few, epochs=2)
        if grown is not None:
            _require_valid_update(model, grown, few)
            old = model.user_ids
            same = np.array_equal(_scores(grown, old), before)
            _require(same, "fold_in must not change the scores of other users")

    @cached_property
    def _model(self) -> Any:
        """A model of `two_tastes`, fitted once for all rules that ask it something."""
        return self.make().fit(self._tastes())

    def _tastes(self) -> Dataset:
        """Return `two_tastes`, with times or attributes if the model needs them."""
        data = two_tastes()
        timed = Dataset.from_frame(self._events(data.frame())) if self.timed else data
        return self._described(timed)

    def _described(self, data: Any) -> Any:
        """Return the events with the taste that items belong to, if the model needs attributes."""
        if not self.attributes:
            return data
        made = as_dataset(data)
        number = made.items.ids.cast(pl.String).str.extract(r"(\d+)").cast(pl.Int64)
        taste = pl.Series(["even", "odd"]).gather(number % 2)
        return made.with_items({"item": made.items.ids, "taste": taste})

    def _events(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the events, one second apart if the model needs times."""
        times = pl.int_range(FIRST_TIME, FIRST_TIME + pl.len(), dtype=pl.Int64).alias("timestamp")
        return frame.with_columns(times) if self.timed else frame


RULES = tuple(
    name
    for name, rule in vars(ModelContract).items()
    if callable(rule) and not name.startswith("_") and name != "check"
)


def _grown(update: Callable[..., Any], events: pl.DataFrame, **options: Any) -> Any:
    """Return the model after new events; None if its error says to fit again."""
    try:
        return update(events, **options)
    except OptionError as error:
        text = str(error)
        _require(" must be fitted again on all events: " in text, f"not a clear refusal: {text}")
        _require("\n" not in text, "a refusal must be one line")
        return None


def _require_valid_update(model: Any, grown: Any, events: pl.DataFrame) -> None:
    """Check what must be true after any new events."""
    for ids, more in ((model.user_ids, grown.user_ids), (model.item_ids, grown.item_ids)):
        _require(np.array_equal(more[: len(ids)], ids), "known ids must keep their numbers")
    _require("late" in grown.user_ids, "new users must be known")
    _require(type(grown) is type(model), "an update changes the type of the fitted model")
    _require(type(grown.recipe) is type(model.recipe), "an update changes the recipe")
    _require(option.plain(grown.recipe) == option.plain(model.recipe), "an update changes options")
    seen = events.filter(pl.col("user") == "late")["item"].to_list()
    listed = grown.recommend("late", 100)["item"].to_list()
    _require(sorted([*seen, *listed]) == sorted(grown.item_ids), "new events must count as seen")
    _require(bool(np.isfinite(_scores(grown)).all()), "scores must stay finite")
    _require_saved(grown)
    if isinstance(model, Recommender):
        _require_same_attributes(model, grown, events["user"].to_list())
        no_vectors = not model.parameters.users.any()
        _require(not (no_vectors and grown.parameters.users.any()), "users must get no vectors")


def _require_same_attributes(model: Recommender, grown: Recommender, renewed: list[str]) -> None:
    """Check that users without new events keep their attributes."""
    for number, user in enumerate(model.user_ids):
        if user not in renewed:
            same = _attributes(model, number) == _attributes(grown, number)
            _require(same, f"the attributes of {user} change without new events")


def _attributes(model: Recommender, user: int) -> dict[str, float]:
    labels, row = model.space.query.labels(), model.user_rows.take(np.array([user]))
    return {labels[column]: float(value) for column, value in zip(row.column, row.value)}


def _require_saved(model: Any) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.fmpair"
        model.save(path)
        again = load(path)
    _require(np.array_equal(_scores(again), _scores(model)), "saving changes scores")
    _require(option.plain(again.recipe) == option.plain(model.recipe), "saving changes options")
    _require(type(again) is type(model), "saving changes the type of the fitted model")


def _scores(model: Any, users: Any = None) -> np.ndarray:
    """Return the scores of all pairs of these users (None: all), by sorted ids: [users * items]."""
    users = pl.DataFrame({"user": pl.Series(model.user_ids if users is None else users).sort()})
    items = pl.DataFrame({"item": pl.Series(model.item_ids).sort()})
    return model.score(users.join(items, how="cross"))["score"].to_numpy()


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _require_same(first: np.ndarray, second: np.ndarray, what: str) -> None:
    same = bool(np.allclose(first, second, TOLERANCE, TOLERANCE))
    _require(same, f"{what} give different scores")
