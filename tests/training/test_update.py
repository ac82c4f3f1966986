"""Going on with a fitted model: what moves, what stays, what grows."""

from functools import cache

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, FMPair, Popularity
from fmpair.arrays import distinct_pairs
from fmpair.data import public_sets, synthetic
from fmpair.data.splits import holdout
from fmpair.errors import Notice, OptionError, UnknownError
from fmpair.evaluation import Protocol, evaluate
from fmpair.testing import cold_items, day_and_night, two_tastes
from fmpair.training import loop, update
from fmpair.training.update import joined, sample_pairs

PLAIN = {"history": 0, "times": False, "order": 2}  # without the trials of `FMPair()`


@cache
def tastes():
    return FMPair(factors=4, epochs=40, seed=1).fit(two_tastes())


@cache
def blocked():
    return FMPair(factors=4, epochs=20, seed=1, blocks=4).fit(day_and_night())


def events(user, items, **columns):
    return pl.DataFrame({"user": [user] * len(items), "item": items, **columns})


def test_a_new_user_is_folded_in_from_a_few_events():
    for parity in (0, 1):
        chosen = [4 + parity, 8 + parity, 12 + parity]
        out = tastes().fold_in(events("new", chosen)).recommend("new", n=5)
        assert (out["item"] % 2 == parity).all()
        assert set(out["item"]).isdisjoint(chosen)


def test_folding_in_leaves_everything_else_as_it_was():
    more = pl.concat(
        [events(f"new{n}", [n, n + 2, n + 5], time=["day", "night", "day"]) for n in range(9)]
    )
    grown = blocked().fold_in(more)
    old, new = blocked().parameters, grown.parameters
    np.testing.assert_array_equal(new.users[:40], old.users)
    for name in old._fields[1:]:
        np.testing.assert_array_equal(getattr(new, name), getattr(old, name), err_msg=name)
    assert grown.recommend("u3", n=5).equals(blocked().recommend("u3", n=5))
    assert len(grown.user_ids) == 49 and len(blocked().user_ids) == 40


def test_folding_in_leaves_cold_items_as_they_were():
    model = FMPair(factors=4, epochs=20).fit(cold_items())
    grown = model.fold_in(pl.concat([events(f"n{n}", list(range(n, 9))) for n in range(5)]))
    np.testing.assert_array_equal(grown.item_constants, model.item_constants)


def test_a_part_of_a_larger_data_set_folds_in_its_own_users_only():
    data = two_tastes()
    old, new = data.take(data.user < 30), data.take(data.user == 35)
    model = FMPair(factors=4, epochs=20).fit(old.compact())
    assert len(model.fold_in(new).user_ids) == 31


def test_folding_in_leaves_users_without_events_as_they_were():
    frame = two_tastes().frame()
    users = {"user": [*frame["user"].unique(maintain_order=True), "idle"]}
    model = FMPair(factors=4, epochs=5).fit(Dataset.from_frame(frame, users=users))
    grown = model.fold_in(events("new", [4, 8, 12]))
    np.testing.assert_array_equal(grown.parameters.users[:-1], model.parameters.users)


def test_a_user_is_folded_in_alike_among_all_others_and_among_some_of_them(monkeypatch):
    frame = day_and_night().frame()
    ids = frame["user"].unique(maintain_order=True)
    table = pl.DataFrame({"user": ids, "town": [f"town {n % 3}" for n in range(len(ids))]})
    model = FMPair(factors=4, epochs=20).fit(Dataset.from_frame(frame, users=table))
    more = Dataset.from_frame(
        pl.concat([events(user, [2, 4, 6], time=["day", "dusk", "day"]) for user in ("u7", "new")]),
        users={"user": ["new", "u7"], "town": ["town 1", "nowhere"]},
    )
    among_all = model.fold_in(more)
    monkeypatch.setattr(update, "OTHERS", 5)
    among_some = model.fold_in(more)
    assert among_some.space.users.ids.equals(among_all.space.users.ids)
    for name in ("user_rows", "item_rows", "seen"):
        for one, other in zip(getattr(among_some, name), getattr(among_all, name)):
            np.testing.assert_array_equal(one, other, err_msg=name)
    others = [n for n in range(len(ids)) if ids[n] != "u7"]
    for name, table in among_some.parameters._asdict().items():
        whole = getattr(among_all.parameters, name)
        kept = others if name == "users" else slice(None)
        np.testing.assert_array_equal(table[kept], whole[kept], err_msg=name)
    for user in ("u7", "new"):
        one, other = (m.user_vectors[m.user_number(user)] for m in (among_some, among_all))
        assert one @ other > 0.8 * np.linalg.norm(one) * np.linalg.norm(other)


def test_an_unknown_item_is_passed_over_in_a_fold_in_or_refused():
    with pytest.warns(Notice, match=r"1 of 3 events have unknown items .*the first has 99; unkn"):
        folded = tastes().fold_in(events("new", [4, 99, 8]))
    alike = tastes().fold_in(events("new", [4, 8]))
    np.testing.assert_array_equal(folded.user_vectors, alike.user_vectors)
    with pytest.raises(UnknownError, match="unknown item 99"):
        tastes().fold_in(events("new", [4, 99]), unknown="error")
    with pytest.raises(UnknownError, match="none of the 2 events has an item that the model knows"):
        tastes().fold_in(events("new", [98, 99]))


def test_an_update_grows_users_items_context_values_and_attributes():
    table = {"item": range(20), "kind": ["calm", "loud"] * 10}
    model = FMPair(factors=4, epochs=20).fit(
        Dataset.from_frame(day_and_night().frame(), items=table)
    )
    more = Dataset.from_frame(
        events("late", [2, 4, 50], time=["dusk", "day", "dusk"]),
        items={"item": [50, 51], "kind": ["quiet", "loud"]},
    )
    grown = model.update(more, epochs=10)
    assert "late" in grown.user_ids and {50, 51} <= set(grown.item_ids)
    assert grown.recommend("u1", n=1, context={"time": "dusk"})["item"].len() == 1
    labels = grown.space.item.labels()
    assert labels == ["kind=calm", "kind=loud", "kind=quiet"]
    row = grown.item_rows.take(np.array([grown.item_number(50)]))
    assert [labels[c] for c in row.column] == ["kind=quiet"]
    assert grown.item_rows.take(np.arange(20)).column.tolist() == model.item_rows.column.tolist()
    assert grown.recipe == model.recipe


def test_values_that_grow_in_a_first_field_do_not_shift_the_meaning_of_the_next():
    frame = day_and_night().frame().with_columns(place=pl.Series(["home", "work"] * 200))
    model = FMPair(factors=4, epochs=20).fit(frame)
    grown = model.update(events("u1", [2], time=["dusk"], place=["bus"]), epochs=1)
    at = {label: n for n, label in enumerate(grown.space.query.labels())}
    for n, label in enumerate(model.space.query.labels()):
        before, after = model.parameters.query[n], grown.parameters.query[at[label]]
        np.testing.assert_allclose(after, before, atol=0.05)


def test_old_users_keep_sensible_lists_after_an_update():
    more = events("late", [1, 3, 5, 7, 9])
    grown = tastes().update(more, epochs=10)
    assert (grown.recommend("late", n=4)["item"] % 2 == 1).all()
    before, after = (m.recommend(n=1) for m in (tastes(), grown))
    old = after.filter(pl.col("user") != "late")
    assert (old["item"] == before["item"]).mean() > 0.9


def halves(data, share, seed=0):
    """All of the training events, those fitted first, those that come with an update, the test."""
    train, _, test = holdout(data, test=0.2, seed=seed).parts(data)
    order = np.random.default_rng(seed).permutation(len(train))
    first, later = np.split(order, [round((1 - share) * len(train))])
    return train, train.take(np.sort(first)), train.take(np.sort(later)), test


@pytest.mark.parametrize("share", [pytest.param(0.5, marks=pytest.mark.thorough), 0.1])
def test_an_update_ranks_nearly_as_well_as_a_fit_to_all_events(share):
    train, first, later, test = halves(
        synthetic.make(users=200, items=120, events=8000).data, share
    )
    whole, updated = [], []
    for seed in range(3):  # one fit is better than another by up to 1 %
        recipe = FMPair(factors=8, epochs=24, threads=1, seed=seed, **PLAIN)
        whole.append(recipe.fit(train))
        updated.append(recipe.fit(first).update(later))
    one, other = (
        np.mean(
            [
                evaluate(model, train, test, Protocol(seen="none"), ["ndcg@10"]).means["ndcg@10"]
                for model in models
            ]
        )
        for models in (whole, updated)
    )
    assert other > 0.97 * one


@pytest.mark.thorough
@pytest.mark.realdata
def test_half_of_movielens_and_an_update_reach_a_fit_at_a_tenth_of_its_work(monkeypatch):
    work, start = [], loop.start

    def counted(problem, first, settings):
        training, events = start(problem, first, settings), int((~problem.known).sum())

        class Counted:
            def __getattr__(self, name):
                return getattr(training, name)

            def epoch(self, number, rate):
                work.append(events)
                return training.epoch(number, rate)

        return Counted()

    monkeypatch.setattr(loop, "start", counted)
    train, first, later, test = halves(public_sets.load("ml-100k"), 0.5)

    def worked(fitted):
        work.clear()
        model = fitted()
        found = evaluate(model, train, test, Protocol(unit="user"), ["ndcg@10"])
        return model, found.means["ndcg@10"], sum(work)

    # trials would find another regularisation for half of the events, which an update keeps
    recipe = FMPair(regularization={"user": 0.12, "item": 0.06})
    _, best, all_work = worked(lambda: recipe.fit(train))
    half, _, _ = worked(lambda: recipe.fit(first.compact()))
    _, updated, little = worked(lambda: half.update(later))
    assert updated > 0.97 * best and little < 0.1 * all_work


def test_a_new_user_and_a_new_item_are_learned_from_a_few_events():
    more = pl.concat([events("late", [1, 3, 5, 7, 9]), events("new", [2, 4, 6, 8, 99])])
    even = pl.concat([more, *(events(f"u{n}", [99]) for n in range(0, 40, 2))])
    grown = tastes().update(even)
    assert (grown.recommend("late", n=4)["item"] % 2 == 1).all()
    ranks = grown.recommend("late", n=99, exclude_seen=False)["item"].to_list().index(99)
    mine = grown.recommend("u1", n=99, exclude_seen=False)["item"].to_list().index(99)
    other = grown.recommend("u2", n=99, exclude_seen=False)["item"].to_list().index(99)
    assert min(ranks, mine) > other


def test_attributes_move_alike_whether_the_update_repeats_them_or_not():
    data = two_tastes()
    table = pl.DataFrame({"user": data.users.ids, "taste": ["x", "y"] * (len(data.users) // 2)})
    recipe = FMPair(factors=4, epochs=20, regularization={"user_features": 0.001})
    model = recipe.fit(Dataset.from_frame(data.frame(), users=table))
    more = pl.concat([events(f"u{n}", [n % 7, n % 5]) for n in range(20)])
    before = model.parameters.query
    bare, told = (
        np.linalg.norm(model.update(new, epochs=10).parameters.query - before)
        for new in (more, Dataset.from_frame(more, users=table))
    )
    assert told > 0 and bare < 1.5 * told


def test_an_update_remembers_what_was_seen_before_and_how_often():
    grown = tastes().update(events("u2", [1, 1, 4]), epochs=1)
    number = grown.user_number("u2")
    row = grown.seen.take(np.array([number]))
    times = dict(zip(grown.item_ids[row.column].tolist(), row.value.tolist()))
    assert times[1] == 2 and times[4] == 2 and times[6] == 1
    again = grown.update(events("u2", [1]), epochs=1)
    row = again.seen.take(np.array([number]))
    assert dict(zip(again.item_ids[row.column].tolist(), row.value.tolist()))[1] == 3


def test_an_update_leaves_the_model_it_began_with_alone():
    before = [table.copy() for table in tastes().parameters]
    tastes().update(events("u1", [2, 4]))
    for table, copy in zip(tastes().parameters, before):
        np.testing.assert_array_equal(table, copy)


def test_an_update_with_the_same_events_and_seed_is_the_same():
    one, two = (tastes().update(events("late", [1, 3]), epochs=3) for _ in range(2))
    np.testing.assert_array_equal(one.item_vectors, two.item_vectors)


def test_columns_that_played_no_part_before_play_none_now():
    more = events("late", [2, 4], time=["day", "day"])
    wide = more.with_columns(price=pl.Series([1.5, 2.5]), session_id=pl.Series(["s1", "s2"]))
    one, two = (blocked().update(frame, epochs=2) for frame in (more, wide))
    np.testing.assert_array_equal(one.item_vectors, two.item_vectors)


def test_item_columns_of_the_events_are_item_columns_again():
    frame = day_and_night().frame().with_columns(kind=pl.col("item") % 3)
    data = Dataset.from_frame(frame, item_columns=["kind"])
    more = FMPair(factors=2, epochs=2).fit(data).update(
        events("late", [2, 50], time=["day", "day"], kind=[2, 7]), epochs=1
    )  # fmt: skip
    assert more.space.item.labels()[-1] == "kind=7"


def test_columns_the_model_does_not_know_are_named():
    with pytest.raises(UnknownError, match=r"'tiem'. Did you mean 'time'\?"):
        blocked().update(events("u1", [2], tiem=["day"]))
    with pytest.raises(UnknownError, match="unknown item attribute 'kind'"):
        blocked().update(Dataset.from_frame(events("u1", [2]), items={"item": [2], "kind": ["a"]}))


def test_a_model_that_cannot_go_on_says_so():
    with pytest.raises(OptionError, match="Popularity must be fitted again on all events"):
        Popularity().fit(two_tastes()).update(events("u1", [2]))
    with pytest.raises(OptionError, match="epochs must be"):
        tastes().update(events("u1", [2]), epochs=0)


SEEN = distinct_pairs(np.array([0, 0, 0, 2, 2]), np.array([3, 3, 5, 1, 3]), 3)  # 4 pairs, 5 events


def test_every_event_is_drawn_at_most_once():
    assert sample_pairs(SEEN, 99, seed=0).tolist() == [0, 0, 1, 2, 3]
    times = np.bincount(
        np.concatenate([sample_pairs(SEEN, 2, seed) for seed in range(500)]), minlength=4
    )
    np.testing.assert_allclose(times / 500, [0.8, 0.4, 0.4, 0.4], atol=0.1)


def test_nothing_is_drawn_where_nothing_was_seen():
    nothing = distinct_pairs(np.zeros(0, np.int64), np.zeros(0, np.int64), 3)
    assert len(sample_pairs(nothing, 5, seed=0)) == 0
    assert len(sample_pairs(SEEN, 0, seed=0)) == 0


def test_earlier_events_lack_what_only_the_new_ones_say():
    new = Dataset.from_frame({"user": ["a", "b"], "item": [1, 2], "weight": [2.0, 4.0]})
    old = Dataset.from_frame({"user": ["a", "b"], "item": [2, 1]})
    both = joined(new, old)
    assert both.weight.tolist() == [2.0, 4.0, 1.0, 1.0] and len(both) == 4


def test_replay_is_no_part_of_what_was_seen_anew():
    model = FMPair(factors=4, epochs=8).fit(two_tastes())
    more = pl.DataFrame({"user": ["u1"], "item": [2]})
    plain, again = model.update(more), model.update(more, replay=50)
    for one, other in zip(plain.seen, again.seen):
        np.testing.assert_array_equal(one, other)
    assert (plain.item_vectors != again.item_vectors).any()


def test_a_model_with_context_asks_for_the_events_themselves():
    data = synthetic.make(users=30, items=20, events=600).data
    model = FMPair(factors=4, epochs=2).fit(data)
    with pytest.raises(OptionError, match=r"does not store the context .*daytime"):
        model.update(data.take(np.arange(5)), replay=1)
    with pytest.raises(OptionError, match="replay"):
        FMPair(factors=4, epochs=2).fit(two_tastes()).update(two_tastes(), replay=-1)


def test_events_to_replay_are_of_ids_that_the_model_knows():
    model = FMPair(factors=4, epochs=2).fit(two_tastes())
    with pytest.raises(UnknownError, match="unknown user 'nobody'"):
        model.update(two_tastes(), replay=pl.DataFrame({"user": ["nobody"], "item": [2]}))


def test_many_passes_over_few_events_forget_less_beside_earlier_ones_in_their_context():
    data = synthetic.make(users=200, items=120, events=8000).data
    train, _, test = holdout(data, test=0.2).parts(data)
    order = np.random.default_rng(0).permutation(len(train))
    old, new = train.take(np.sort(order[640:])), train.take(np.sort(order[:640]))
    model = FMPair(factors=8, epochs=24, threads=1, **PLAIN).fit(old)

    def ndcg(one):
        return evaluate(one, train, test, Protocol(seen="none"), ["ndcg@10"]).means["ndcg@10"]

    alone, beside = (ndcg(model.update(new, epochs=24, replay=r)) for r in (0, old))
    assert alone < 0.95 * ndcg(model) and beside > 0.99 * ndcg(model)
