"""The strata plan: nothing shared within a round, nothing lost, negatives that are negatives."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmpair.arrays import empty_rows
from fmpair.engine import reference
from fmpair.engine.contract import Groups, Parameters, Problem, Settings
from fmpair.engine.reference.draws import choices
from fmpair.engine.strata import partition as plan


def problem_of(user, item, users, items, known=None):
    count = len(user)
    no_features = Groups(*(np.zeros(0) for _ in Groups._fields))
    return Problem(
        user=np.asarray(user, np.int32),
        item=np.asarray(item, np.int32),
        weight=np.ones(count, np.float32),
        known=np.zeros(count, bool) if known is None else known,
        drawn=np.ones(items, bool),
        situation=np.zeros(count, np.int32),
        contexts=empty_rows(1),
        user_rows=empty_rows(users),
        item_rows=empty_rows(items),
        query_groups=no_features,
        item_groups=no_features,
    )


@st.composite
def problems(draw):
    users, items = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    pair = st.tuples(st.integers(0, users - 1), st.integers(0, items - 1))
    pairs = draw(st.lists(pair, min_size=1, max_size=60))
    return problem_of(*zip(*pairs), users, items)


def cells(partition):
    """{(user block, item block): [(user, item, event), ...]} by original numbers."""
    found = {}
    for cell in range(partition.blocks**2):
        rows = found.setdefault(divmod(cell, partition.blocks), [])
        for run in range(partition.cell[cell], partition.cell[cell + 1]):
            for e in range(partition.run_start[run], partition.run_start[run + 1]):
                user = partition.user_at[partition.run_user[run]]
                item = partition.item_at[partition.item[e]]
                rows.append((int(user), int(item), int(partition.event[e])))
    return found


@given(problems(), st.integers(1, 5), st.integers(0, 99), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_no_two_cells_of_a_round_share_a_user_or_an_item(problem, blocks, seed, number):
    found = cells(plan.partition(plan.by_user(problem, True), blocks, seed, number))
    for turn in range(blocks):
        side_by_side = [found[t, (t + turn) % blocks] for t in range(blocks)]
        for place in (0, 1):
            ids = [{row[place] for row in rows} for rows in side_by_side]
            assert sum(map(len, ids)) == len(set().union(*ids))


@given(problems(), st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_every_event_is_in_exactly_one_cell(problem, blocks, seed):
    found = cells(plan.partition(plan.by_user(problem, True), blocks, seed, 1))
    rows = sorted((row for part in found.values() for row in part), key=lambda row: row[2])
    wanted = list(zip(problem.user.tolist(), problem.item.tolist(), range(len(problem.user))))
    assert rows == wanted


@given(problems(), st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_a_partition_is_a_permutation_of_ids_in_blocks_of_equal_size(problem, blocks, seed):
    partition = plan.partition(plan.by_user(problem, True), blocks, seed, 1)
    assert sorted(partition.user_at) == list(range(problem.users))
    assert sorted(partition.item_at) == list(range(problem.items))
    sizes = np.diff(partition.item_edge)
    assert sizes.sum() == problem.items and sizes.max() - sizes.min() <= 1


def skewed(users=200, items=300, events=6000, seed=0):
    rng = np.random.default_rng(seed)
    item = np.minimum((rng.pareto(1.0, events) * 5).astype(int), items - 1)
    return problem_of(rng.integers(0, users, events), item, users, items)


def test_blocks_have_about_as_many_events_each_though_items_are_skewed():
    problem = skewed()
    partition = plan.partition(plan.by_user(problem, True), 4, 0, 1)
    found = cells(partition)
    by_user_block = [sum(len(found[t, c]) for c in range(4)) for t in range(4)]
    assert max(by_user_block) < 1.3 * min(by_user_block)
    by_item_block = [sum(len(found[t, c]) for t in range(4)) for c in range(4)]
    assert max(by_item_block) - min(by_item_block) <= 2 * np.bincount(problem.item).max()


def test_a_partition_depends_on_seed_and_number_only():
    events = plan.by_user(skewed(), True)
    one, same = plan.partition(events, 4, 7, 1), plan.partition(events, 4, 7, 1)
    assert all(np.array_equal(a, b) for a, b in zip(one, same))
    assert not np.array_equal(one.item_at, plan.partition(events, 4, 7, 6).item_at)
    assert not np.array_equal(one.item_at, plan.partition(events, 4, 8, 1).item_at)


@given(problems(), st.integers(0, 99), st.integers(1, 9), st.sampled_from(["bootstrap", "user"]))
@settings(max_examples=60, deadline=None)
def test_drawn_visits_sum_to_the_number_of_events(problem, seed, epoch, kind):
    times = plan.visits(kind, problem, plan.by_user(problem, True), seed, epoch)
    assert times.sum() == len(problem.user)


def test_a_permutation_visits_each_event_once():
    problem = skewed()
    assert len(plan.visits("permutation", problem, plan.by_user(problem, True), 0, 1)) == 0
    state = begun(problem, blocks=3)
    visited = Counter((pair.u, pair.items[0]) for pair in all_pairs(state, 1))
    assert visited == Counter(zip(problem.user.tolist(), problem.item.tolist()))


@pytest.mark.parametrize("kind", ["permutation", "bootstrap", "user"])
def test_events_that_are_only_known_are_never_visited(kind):
    base = skewed()
    known = np.random.default_rng(1).random(len(base.user)) < 0.5
    problem = base._replace(known=known)
    times = plan.visits(kind, problem, plan.by_user(problem, True), 0, 1)
    assert not times[known].any() and times.sum() == (~known).sum()


def test_drawing_users_visits_each_user_equally_often():
    user = np.repeat([0, 1, 2], [2000, 900, 100])
    problem = problem_of(user, np.arange(3000) % 50, 3, 50)
    times = plan.visits("user", problem, plan.by_user(problem, True), 0, 1)
    np.testing.assert_allclose(np.bincount(user, times), 1000, atol=120)


def test_an_event_may_be_visited_more_often_than_a_short_number_holds():
    user = np.repeat([0, 1], [199_999, 1])
    problem = problem_of(user, np.arange(200_000) % 50, 2, 50)
    times = plan.visits("user", problem, plan.by_user(problem, True), 0, 1)
    assert times.sum() == 200_000
    assert times[-1] == pytest.approx(100_000, rel=0.02)


def begun(problem, blocks=1, seed=0, number=1):
    """A reference state with its partition made; parameters do not matter."""
    parameters = Parameters(
        users=np.zeros((problem.users, 1)),
        items=np.zeros((problem.items, 1)),
        item_bias=np.zeros(problem.items),
        query=np.zeros((0, 1)),
        features=np.zeros((0, 1)),
        feature_bias=np.zeros(0),
    )
    penalties = dict.fromkeys(("user", "positive", "negative", "bias"), 0.0)
    by_row = ("query", "features", "query_threshold", "feature_threshold")
    chosen = Settings(
        seed=seed, positives="permutation", blocks=blocks, partition_every=1, threads=1,
        **penalties, **dict.fromkeys(by_row, np.zeros(0)),
    )  # fmt: skip
    state = reference.begin(problem, parameters, chosen)
    state.partition = plan.partition(state.events, blocks, seed, number)
    return state


def all_pairs(state, number):
    blocks = state.settings.blocks
    for block in range(blocks):
        for item_block in range(blocks):
            yield from choices(state.cell(block, item_block), number, state.tables)


@given(problems(), st.integers(1, 3), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_a_negative_is_never_an_item_of_the_user(problem, blocks, seed):
    had = set(zip(problem.user.tolist(), problem.item.tolist()))
    for pair in all_pairs(begun(problem, blocks, seed), 1):
        assert (pair.u, pair.items[1]) not in had
        assert (pair.u, pair.items[0]) in had


def test_no_step_is_skipped_because_a_draw_hit_a_positive():
    items = 40  # each user has 38 of 40 items: most draws hit one of them
    user, item = np.divmod(np.arange(10 * 38), 38)
    problem = problem_of(user, (item + user * 3) % items, 10, items)
    assert sum(1 for _ in all_pairs(begun(problem), 1)) == len(user)


def test_over_the_partitions_every_unseen_item_is_drawn_and_both_parities_alike():
    user, item = np.divmod(np.arange(20 * 10), 10)
    problem = problem_of(user, (item * 2 + user) % 30, 20, 30)
    drawn = Counter()
    for number in range(1, 60):
        state = begun(problem, 3, number=number)
        drawn.update((pair.u, pair.items[1]) for pair in all_pairs(state, number))
    had = set(zip(problem.user.tolist(), problem.item.tolist()))
    unseen = {(u, i) for u in range(20) for i in range(30)} - had
    assert set(drawn) == unseen
    odd = sum(times for (u, j), times in drawn.items() if (j - u) % 2)
    share = sum((i - u) % 2 for u, i in unseen) / len(unseen)
    assert odd / drawn.total() == pytest.approx(share, abs=0.02)


def test_items_that_may_not_be_drawn_are_not_drawn():
    problem = problem_of([0, 1, 2, 0], [0, 1, 2, 3], 3, 8)
    problem = problem._replace(drawn=np.arange(8) < 6)
    pairs = [p for n in range(1, 40) for p in all_pairs(begun(problem, number=n), n)]
    assert {pair.items[1] for pair in pairs} == set(range(6))


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    st.integers(1, 10**8),
    st.integers(1, 512),
    st.sampled_from(["", "features", "histories"]),
)
def test_blocks_are_a_power_of_two_that_leaves_items_in_each(users, items, events, size, shared):
    blocks = plan.choose_blocks(users, items, events, size, shared)
    assert blocks & (blocks - 1) == 0 and 1 <= blocks <= plan.MAX_BLOCKS
    assert blocks == 1 or items // blocks >= max(plan.MIN_ITEMS, size)


def test_a_million_events_keep_sixteen_cores_busy_whatever_is_learned():
    for candidates, shared in ((1, ""), (1, "features"), (57, ""), (57, "features")):
        assert plan.choose_blocks(6_040, 3_706, 1_000_209, candidates, shared) >= 16
