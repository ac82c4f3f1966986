"""Which problems fold items with their attributes, and for how long."""

import pytest
from engine.problems import problem_of, settings_of, triple_l2_of, with_triples

from fmpair.engine.strata.sampling_tables import TIMES, folds, steps_between

SOFTMAX = {"loss": "softmax", "n_negatives": 4}


@pytest.mark.parametrize(
    ("parts", "changes", "wanted"),
    [
        ("a", SOFTMAX, True),
        ("cua", {"optimizer": "adagrad"}, True),
        ("cua", {**SOFTMAX, "item_rate": 0.0, "feature_rate": 0.0}, True),
        ("cu", SOFTMAX, False),
        ("a", {}, False),  # pairs have a kernel of their own
        ("a", {**SOFTMAX, "item_rate": 0.0}, False),  # attributes learn from how far items go
    ],
)
def test_items_are_folded_in_lists_where_they_have_attributes(parts, changes, wanted):
    assert folds(problem_of(parts), settings_of(**changes)) == wanted


def test_terms_of_order_three_are_not_folded():
    problem = with_triples(problem_of("a"))
    settings = settings_of(triples=triple_l2_of(problem), **SOFTMAX)
    assert not folds(problem, settings)


def test_between_two_folds_every_item_is_in_as_many_lists_on_average():
    assert steps_between(1000, 99) == 10 * TIMES
    assert steps_between(1, 99) == 1
