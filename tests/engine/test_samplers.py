"""Where negatives come from: the right odds, never a seen item, and the engines agree."""

import numpy as np
import pytest
from engine.problems import parameters_of, problem_of, settings_of
from hypothesis import given
from hypothesis import strategies as st

from fmpair.arrays import empty_rows
from fmpair.engine.contract import NEGATIVE_SAMPLERS, Parameters
from fmpair.engine.cpu import training as cpu
from fmpair.engine.cpu.sampling import alias_table, item_sides, ordering, pieces
from fmpair.engine.reference import training as reference
from fmpair.engine.strata import partition as plan

KINDS = {
    "popularity": {"negative_sampler": "popularity", "popularity_power": 0.7},
    "popularity, corrected": {"negative_sampler": "popularity", "loss": "softmax", "n_negatives": 3,
                              "logq_correction": True},
    "adaptive": {"negative_sampler": "adaptive", "rank_share": 0.3},
    "adaptive, softmax": {"negative_sampler": "adaptive", "loss": "softmax", "n_negatives": 3},
    "adaptive, cosines": {"negative_sampler": "adaptive", "loss": "warp", "n_negatives": 3,
                          "temperature": 0.5},
    "own": {"own_share": 0.3},
    "own, softmax": {"own_share": 0.4, "loss": "softmax", "n_negatives": 4},
    "batch": {"negative_sampler": "batch"},
    "batch, corrected": {"negative_sampler": "batch", "loss": "softmax", "n_negatives": 3,
                         "logq_correction": True},
    "shown": {"impression_share": 0.5},
    "shown, own": {"impression_share": 0.5, "own_share": 0.3, "loss": "softmax", "n_negatives": 4},
}  # fmt: skip


@pytest.mark.parametrize("parts", ["s", "cuas"])
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_cpu_engine_learns_what_the_reference_learns(kind, blocks, parts):
    problem = problem_of(parts, events=60, weights=True)
    start, settings = parameters_of(problem), settings_of(blocks=blocks, **KINDS[kind])
    slow, fast = (e.begin(problem, start, settings) for e in (reference, cpu))
    for number in (1, 2, 3):
        losses = [reference.epoch(slow, number, 0.05), cpu.epoch(fast, number, 0.05)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    for name, wanted, got in zip(Parameters._fields, reference.snapshot(slow), cpu.snapshot(fast)):
        np.testing.assert_allclose(got, wanted, atol=3e-5, err_msg=name)


@pytest.mark.parametrize(
    "kind", ["popularity", "adaptive", "own, softmax", "batch, corrected", "shown, own"]
)
def test_any_number_of_threads_gives_the_same_bits(kind):
    problem = problem_of("s", users=60, items=80, events=2000)
    start, results = parameters_of(problem), set()
    for threads in (1, 2):
        state = cpu.begin(problem, start, settings_of(blocks=4, threads=threads, **KINDS[kind]))
        for number in (1, 2, 3):
            cpu.epoch(state, number, 0.05)
        results.add(b"".join(table.tobytes() for table in cpu.snapshot(state)))
    assert len(results) == 1


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=30).filter(lambda w: sum(w) > 0))
def test_an_alias_table_gives_every_item_its_share(weights):
    weight = np.array(weights)
    accept, other = alias_table(weight)
    kept = (accept.astype(float) + 1) / 2**32
    chance = kept.copy()
    np.add.at(chance, other, 1 - kept)
    np.testing.assert_allclose(chance / len(weight), weight / weight.sum(), atol=1e-6)


def test_items_without_events_are_drawn_alike_where_no_item_has_any():
    accept, _ = alias_table(np.zeros(4))
    assert (accept == 2**32 - 1).all()


def drawn(negatives, **options):
    """(the problem, its choices, in one block and with nothing learned)."""
    problem = problem_of("s", users=200, items=30, events=1500)
    start = parameters_of(problem)
    settings = settings_of(negative_sampler=negatives, **options)
    state = reference.begin(problem, start, settings)
    state.partition = plan.partition(state.events, 1, settings.seed, number=1)
    return problem, state.parameters, list(reference._choices(state, 0, 0, 1))


@pytest.mark.parametrize("impression_share", [0.0, 0.5])
@pytest.mark.parametrize("negatives", NEGATIVE_SAMPLERS)
def test_a_negative_is_never_an_item_the_user_has(negatives, impression_share):
    problem, _, choices = drawn(negatives, impression_share=impression_share)
    had = set(zip(problem.user.tolist(), problem.item.tolist()))
    assert choices and not any((c.u, c.j) in had for c in choices)


def test_a_share_of_the_candidates_are_other_items_of_the_user():
    problem, _, choices = drawn("uniform", own_share=0.25, loss="softmax", n_negatives=8)
    had = set(zip(problem.user.tolist(), problem.item.tolist()))
    own = [[(c.u, j) in had for j in c.items[1:]] for c in choices]
    assert not any(c.i in c.items[1:] or len(set(c.items)) < len(c.items) for c in choices)
    assert (
        1 < np.mean([sum(found) for found in own]) <= 2
    )  # the chosen one may be drawn and left out


def test_popular_items_are_drawn_more_often_the_higher_the_power():
    means = []
    for power in (0.0, 1.0, 3.0):
        problem, _, choices = drawn("popularity", popularity_power=power)
        times = np.bincount(problem.item, minlength=problem.items)
        means.append(times[[c.j for c in choices]].mean())
    assert means[0] < means[1] < means[2]


def test_negatives_of_the_batch_are_as_frequent_as_items_are_among_the_events():
    count, items = 4000, 10
    problem = problem_of("", users=count, items=items, events=count)
    skewed = (np.random.default_rng(0).random(count) ** 2 * items).astype(np.int32)
    problem = problem._replace(user=np.arange(count, dtype=np.int32), item=skewed)
    state = reference.begin(problem, parameters_of(problem), settings_of(negative_sampler="batch"))
    state.partition = plan.partition(state.events, 1, seed=3, number=1)
    found = np.zeros((items, items))
    for choice in reference._choices(state, 0, 0, 1):
        found[choice.i, choice.j] += 1
    share = np.bincount(skewed, minlength=items) / count
    wanted = (1 - np.eye(items)) * share / (1 - share[:, None])  # none is drawn against itself
    np.testing.assert_allclose(found.sum(axis=0) / count, share @ wanted, atol=0.02)
    assert share.max() > 5 * share.min()


def test_a_correction_takes_the_logarithm_of_an_items_events_off_its_score():
    problem, _, choices = drawn("batch", logq_correction=True, loss="softmax", n_negatives=3)
    times = np.bincount(problem.item, minlength=problem.items)
    for choice in choices[:50]:
        np.testing.assert_allclose(choice.off, np.log(times[list(choice.items)]), atol=1e-6)


def test_a_share_of_the_candidates_are_items_shown_to_the_user():
    problem, _, choices = drawn("uniform", impression_share=0.25, loss="softmax", n_negatives=8)
    pairs = set(zip(problem.impressions.owner.tolist(), problem.impressions.column.tolist()))
    pairs -= set(zip(problem.user.tolist(), problem.item.tolist()))
    many = np.bincount([user for user, _ in pairs], minlength=problem.users) >= 2
    first = [[(c.u, j) in pairs for j in c.items[1:3]] for c in choices if many[c.u]]
    assert len(first) > 500 and np.all(first)  # a quarter of eight, and they come first
    assert not any(len(set(c.items)) < len(c.items) for c in choices)


@pytest.mark.parametrize("blocks", [1, 3])
def test_what_was_shown_stands_in_the_run_of_its_user_and_block(blocks):
    problem = plan.with_unchosen(problem_of("s", events=30))
    partition = plan.partition(plan.by_user(problem, True), blocks, seed=1, number=1)
    rows = plan.impressions_by_run(partition, problem.impressions)
    found = {
        (int(partition.user_at[partition.run_user[run]]), int(partition.item_at[place]))
        for run, place in zip(rows.owner, rows.column)
    }
    block = np.repeat(np.arange(blocks**2) % blocks, np.diff(partition.cell))
    first, end = partition.item_edge[block[rows.owner]], partition.item_edge[block[rows.owner] + 1]
    assert ((first <= rows.column) & (rows.column < end)).all()
    place = np.searchsorted(partition.item_edge, plan.places(partition.item_at), side="right") - 1
    runs = set(zip(partition.user_at[partition.run_user].tolist(), block.tolist()))
    shown = zip(problem.impressions.owner.tolist(), problem.impressions.column.tolist())
    assert found and found == {(u, i) for u, i in shown if (u, int(place[i])) in runs}


def test_adaptive_negatives_are_those_the_model_ranks_high():
    ranks = []
    for negatives, share in (("uniform", 1.0), ("adaptive", 0.3), ("adaptive", 0.05)):
        _, tables, choices = drawn(negatives, rank_share=share)
        scores = tables.users @ tables.items.T + tables.item_bias
        order = scores.argsort(axis=1)[:, ::-1].argsort(axis=1)
        ranks.append(np.mean([order[c.u, c.j] for c in choices]))
    assert ranks[2] < ranks[1] < ranks[0]


def test_items_are_ordered_by_each_factor_and_by_their_constants():
    vectors = np.array([[3.0, 0.0], [1.0, 5.0], [2.0, 4.0]])
    found = ordering(vectors, np.array([0.1, 0.3, 0.2]), settings_of())
    assert found.order.tolist() == [[1, 2, 0], [0, 2, 1], [0, 2, 1]]


def test_items_without_attributes_are_their_own_sides():
    problem = problem_of("")
    tables = parameters_of(problem)
    vectors, constants = item_sides(*tables[1:3], empty_rows(problem.items), *tables[4:])
    np.testing.assert_array_equal(vectors, tables.items)
    np.testing.assert_allclose(constants, tables.item_bias, atol=1e-6)


def test_a_long_cell_is_ordered_anew_in_between():
    assert pieces(100, 50_000, 1000).tolist() == [0, 20, 40, 60, 80, 100]
    assert pieces(100, 50, 1000).tolist() == [0, 100]
    assert pieces(1, 50_000, 10).tolist() == [0, 1]
