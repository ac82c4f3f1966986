"""The negatives of the reference engine: the right odds, and never a seen item."""

import numpy as np
import pytest
from engine.problems import choices_of, partitioned, problem_of, settings_of

from fmpair.engine.contract import NEGATIVE_SAMPLERS


def drawn(negatives, **options):
    """(the problem, its choices, in one block and with nothing learned)."""
    problem = problem_of("s", users=200, items=30, events=1500)
    training = partitioned(problem, settings_of(negative_sampler=negatives, **options))
    return problem, training.tables, list(choices_of(training))


@pytest.mark.parametrize("impression_share", [0.0, 0.5])
@pytest.mark.parametrize("negatives", NEGATIVE_SAMPLERS)
def test_a_negative_is_never_an_item_the_user_has(negatives, impression_share):
    problem, _, choices = drawn(negatives, impression_share=impression_share)
    had = set(zip(problem.user.tolist(), problem.item.tolist()))
    assert choices and not any((c.u, c.items[1]) in had for c in choices)


def test_a_share_of_the_candidates_are_other_items_of_the_user():
    problem, _, choices = drawn("uniform", own_share=0.25, loss="softmax", n_negatives=8)
    had = set(zip(problem.user.tolist(), problem.item.tolist()))
    own = [[(c.u, j) in had for j in c.items[1:]] for c in choices]
    assert not any(c.i in c.items[1:] or len(set(c.items)) < len(c.items) for c in choices)
    # the positive itself may be drawn and is left out
    assert 1 < np.mean([sum(found) for found in own]) <= 2


def test_popular_items_are_drawn_more_often_the_higher_the_power():
    means = []
    for power in (0.0, 1.0, 3.0):
        problem, _, choices = drawn("popularity", popularity_power=power)
        times = np.bincount(problem.item, minlength=problem.items)
        means.append(times[[c.items[1] for c in choices]].mean())
    assert means[0] < means[1] < means[2]


def test_negatives_of_the_batch_are_as_frequent_as_items_are_among_the_events():
    count, items = 4000, 10
    problem = problem_of("", users=count, items=items, events=count)
    skewed = (np.random.default_rng(0).random(count) ** 2 * items).astype(np.int32)
    problem = problem._replace(user=np.arange(count, dtype=np.int32), item=skewed)
    training = partitioned(problem, settings_of(negative_sampler="batch"))
    found = np.zeros((items, items))
    for choice in choices_of(training):
        found[choice.i, choice.items[1]] += 1
    share = np.bincount(skewed, minlength=items) / count
    wanted = (1 - np.eye(items)) * share / (1 - share[:, None])  # none is drawn against itself
    np.testing.assert_allclose(found.sum(axis=0) / count, share @ wanted, atol=0.02)
    assert share.max() > 5 * share.min()


def test_a_correction_takes_the_logarithm_of_an_items_events_off_its_score():
    problem, _, choices = drawn("batch", logq_correction=True, loss="softmax", n_negatives=3)
    times = np.bincount(problem.item, minlength=problem.items)
    for choice in choices[:50]:
        np.testing.assert_allclose(choice.off, np.log(times[list(choice.items)]), atol=1e-6)


def test_corrected_uniform_negatives_stand_for_all_items():
    problem, _, choices = drawn("uniform", logq_correction=True, loss="softmax", n_negatives=3)
    items = np.union1d(np.flatnonzero(problem.drawn), problem.item).size
    for choice in choices[:50]:
        np.testing.assert_allclose(choice.off, [0.0] + [-np.log(items / 3)] * 3)


def test_a_share_of_the_candidates_are_items_shown_to_the_user():
    problem, _, choices = drawn("uniform", impression_share=0.25, loss="softmax", n_negatives=8)
    pairs = set(zip(problem.impressions.owner.tolist(), problem.impressions.column.tolist()))
    pairs -= set(zip(problem.user.tolist(), problem.item.tolist()))
    many = np.bincount([user for user, _ in pairs], minlength=problem.users) >= 2
    first = [[(c.u, j) in pairs for j in c.items[1:3]] for c in choices if many[c.u]]
    assert len(first) > 500 and np.all(first)  # a quarter of eight, and they come first
    assert not any(len(set(c.items)) < len(c.items) for c in choices)


def test_adaptive_negatives_are_those_the_model_ranks_high():
    ranks = []
    for negatives, share in (("uniform", 1.0), ("adaptive", 0.3), ("adaptive", 0.05)):
        _, tables, choices = drawn(negatives, rank_share=share)
        scores = tables.users @ tables.items.T + tables.item_bias
        order = scores.argsort(axis=1)[:, ::-1].argsort(axis=1)
        ranks.append(np.mean([order[c.u, c.items[1]] for c in choices]))
    assert ranks[2] < ranks[1] < ranks[0]


def test_a_list_takes_no_more_negatives_than_are_unseen():
    problem = problem_of("", items=6, events=40)
    training = partitioned(problem, settings_of(loss="softmax", n_negatives=50))
    for choice in choices_of(training):
        had = set(problem.item[problem.user == choice.u].tolist())
        assert had.isdisjoint(choice.items[1:])
        assert len(set(choice.items)) == len(choice.items)
