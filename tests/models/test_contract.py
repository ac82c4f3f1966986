"""Every model of our own keeps the contract."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from fmpair import Dataset, Popularity
from fmpair.data.splits import leave_last_out
from fmpair.evaluation import evaluate
from fmpair.models import catalog
from fmpair.testing import RULES, ModelContract, cold_items, day_and_night

FOREIGN = catalog.FAMILIES["other library"]  # held to it in tests/bridges, with options that suit
OURS = [kind for kind in catalog.MODELS if kind not in FOREIGN]
IMPERSONAL = ("random", "popularity", "popular-lately", "most-recent", "markov-chain")
TIMED = ("popular-lately", "most-recent", "markov-chain", "fpmc", "v-sknn")
DESCRIBED = ("content-profile", "content-knn")  # need attributes of items
# Options that make a model quick on tiny data, by the names that models give them.
QUICK = {"factors": 4, "epochs": 30, "k": 15, "threads": 1}


def recipe(kind):
    known = catalog.options(kind)["option"].to_list()
    options = {name: value for name, value in QUICK.items() if name in known}
    return catalog.find(kind)(**options)


@cache  # rules that ask a fitted model share it
def contract(kind):
    personal, timed = kind not in IMPERSONAL, kind in TIMED
    described = kind in DESCRIBED
    return ModelContract(lambda: recipe(kind), personal, timed=timed, attributes=described)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", OURS)
def test_every_model_keeps(kind, rule):
    contract(kind).check(rule)


@pytest.mark.parametrize("kind", OURS)
def test_every_model_can_be_judged(kind):
    data = cold_items() if kind in DESCRIBED else day_and_night()
    if kind in TIMED:
        data = Dataset.from_frame(data.frame(), order="rows")
        train, _, test = leave_last_out(data, count=2).parts(data)
    else:
        rows = np.arange(len(data))
        train, test = data.take(rows[rows % 5 > 0]), data.take(rows[rows % 5 == 0])
    result = evaluate(recipe(kind).fit(train), train, test)
    assert result.coverage == 1 and all(0 <= value <= 1 for value in result.means.values())


@dataclass(frozen=True)
class Forgetful:
    """A model that lists what was seen, and says nothing about itself."""

    def fit(self, data):
        model = Popularity().fit(data)
        return model.replaced(seen=model.seen._replace(start=model.seen.start * 0))


@dataclass(frozen=True)
class Moody:
    """A model of which no two fits are alike."""

    def fit(self, data):
        model = Popularity().fit(data)
        noise = np.random.default_rng().random(len(model.item_ids), np.float32)
        return model.replaced(parameters=model.parameters._replace(item_bias=noise))


def test_a_model_that_breaks_a_rule_is_found_out():
    for recipe, rule, message in (
        (Forgetful, "lists_are_ordered_and_leave_out_what_was_seen", "must be left out"),
        (Moody, "one_seed_gives_the_same_scores", "give different scores"),
        (Popularity, "taste_decides", "get an item of their taste first"),
    ):
        with pytest.raises(AssertionError, match=message):
            ModelContract(recipe).check(rule)


def test_rules_that_do_not_apply_are_left_out():
    ModelContract(Moody, exact=False, personal=False).check(
        "one_seed_gives_the_same_scores", "taste_decides", "a_frame_fits_as_a_dataset_does"
    )


def test_the_whole_contract_is_checked_at_once():
    ModelContract(Popularity, personal=False).check()
