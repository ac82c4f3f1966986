"""What users chose in other domains, as features, as samples, or left aside."""

import numpy as np
import polars as pl
import pytest

from fmpair.data import Dataset
from fmpair.data.splits import target as target_folds
from fmpair.errors import FmpairError, Notice, OptionError
from fmpair.evaluation import Protocol, evaluate
from fmpair.features import with_sources
from fmpair.models import FM, FMPairAll, FMPairCD, FMPairTarget, catalog, load

OPTIONS = {"target": "books", "factors": 6, "epochs": 40, "seed": 1}
KINDS = (FMPairCD, FMPairAll, FMPairTarget)


def taste_across(users=60, books=20, songs=20):
    """Even users choose even items of both domains, odd users odd ones; the last ten no book.

    Right answer: also users without a book should be offered books of their own half first, which
    only their songs can tell.
    """
    user, number = np.divmod(np.arange(users * (books + songs)), books + songs)
    is_book = number < books
    chosen = (user % 2 == number % 2) & (~is_book | (user < users - 10))
    chosen &= (user * 7 + number * 3) % 5 > 0  # everyone leaves some out
    user, number, is_book = user[chosen], number[chosen], is_book[chosen]
    return Dataset.from_frame(
        {
            "user": [f"u{n}" for n in user],
            "item": [f"{'book' if b else 'song'}{n}" for b, n in zip(is_book, number)],
            "domain": pl.Series(["songs", "books"]).gather(is_book.astype(int)),
        }
    )  # fmt: skip


def own_half_first(model, user, n=5):
    items = model.recommend(user, n, exclude_seen=False)["item"]
    return all(int(item[4:]) % 2 == int(user[1:]) % 2 for item in items)


@pytest.mark.parametrize("kind", KINDS)
def test_only_items_of_the_target_are_ranked(kind):
    model = kind(**OPTIONS).fit(taste_across())
    every = model.recommend("u0", 100, exclude_seen=False)["item"]
    assert len(every) == 20 and every.str.starts_with("book").all()


@pytest.mark.parametrize("kind", [FMPairCD, FMPairAll])
def test_other_domains_tell_about_users_who_have_nothing_in_the_target(kind):
    model = kind(**OPTIONS).fit(taste_across())
    assert all(own_half_first(model, f"u{n}") for n in range(60))


def test_the_target_alone_cannot_tell_them_apart():
    model = FMPairTarget(**OPTIONS).fit(taste_across())
    assert all(own_half_first(model, f"u{n}") for n in range(50))
    assert not all(own_half_first(model, f"u{n}") for n in range(50, 60))


def test_source_items_are_worth_a_share_or_one():
    share, binary = (
        FMPairCD(**{**OPTIONS, "epochs": 1}, most=4, value=value).fit(taste_across())
        for value in ("share", "binary")
    )
    assert set(binary.user_rows.value.tolist()) == {1.0}
    np.testing.assert_allclose(share.user_rows.value, 0.25)


def test_the_paper_s_share_is_one_by_all_the_user_s_items_of_a_source_chosen_or_not():
    data = taste_across()
    model = FMPairCD(**{**OPTIONS, "epochs": 1}, most=4, value="share_of_all").fit(data)
    songs = data.frame().filter(pl.col("domain") == "songs").group_by("user").len()
    of_all = {user: pytest.approx(1 / count, rel=1e-6) for user, count in songs.iter_rows()}
    assert set(songs["len"]) == {8}  # of which four are features, and sum to a half
    for user, row in zip(model.user_ids, np.split(model.user_rows.value, 60)):
        assert row.tolist() == [of_all[user]] * 4


def test_the_paper_s_share_tells_of_users_without_an_event_in_the_target_too():
    held = {"user_features": 0.01}  # smaller values pull less, too little for the default
    options = {**OPTIONS, "epochs": 80, "regularization": held, "sharing": 0}
    model = FMPairCD(**options, value="share_of_all").fit(taste_across())
    assert all(own_half_first(model, f"u{n}") for n in range(60))


def test_what_source_items_are_worth_holds_beside_other_options_of_their_field():
    options = {**OPTIONS, "epochs": 1, "fields": {"source_songs": {"start": 0.1}}}
    model = FMPairCD(**options, most=4, value="binary").fit(taste_across())
    assert set(model.user_rows.value.tolist()) == {1.0}


def test_at_most_so_many_items_of_a_source_become_features():
    model = FMPairCD(**{**OPTIONS, "epochs": 1}, most=3).fit(taste_across())
    assert np.diff(model.user_rows.start).max() == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_judged_on_the_target_beside_training_events_of_all_domains(kind):
    data = taste_across()
    fold = target_folds(data, "books", count=4)[0]
    train, test = data.take(fold.train), data.take(fold.test)
    model = kind(**OPTIONS).fit(train)
    protocol = Protocol(domain="books")
    good = evaluate(model, train, test, protocol, ["recall@5"]).means["recall@5"]
    assert good > 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_training_stops_early_by_events_of_the_target(kind):
    data = taste_across()
    fold = target_folds(data, "books", count=4)[0]
    seen = []
    kind(**OPTIONS).fit(
        data.take(fold.train), validation=data.take(fold.test), metric="recall@5", patience=40,
        progress=seen.append,
    )  # fmt: skip
    assert len(seen) == 40 and max(epoch.value for epoch in seen) > 0.9


def test_events_of_other_domains_cannot_be_all_that_is_held_out():
    data = taste_across()
    songs = data.take((data.columns["domain"] == "songs").to_numpy())
    with pytest.raises(FmpairError, match="no held-out event has an item that the model ranks"):
        FMPairTarget(**OPTIONS).fit(data, validation=songs)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_keeps_its_recipe(kind, tmp_path):
    model = kind(**{**OPTIONS, "epochs": 2}).fit(taste_across())
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.recipe == model.recipe == kind(**{**OPTIONS, "epochs": 2})
    assert again.recommend("u3").equals(model.recommend("u3"))


def test_every_option_is_described_those_of_fm_pair_too():
    described = catalog.options("fm-pair-cd")
    assert (described["description"] != "").all()
    assert {"target", "most", "factors"} <= set(described["option"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_target_must_be_a_domain_of_the_data(kind):
    with pytest.raises(FmpairError, match="books, songs"):
        kind().fit(taste_across())
    with pytest.raises(FmpairError, match=r"'bocks'.*'books'"):
        kind(target="bocks").fit(taste_across())
    with pytest.raises(FmpairError, match="domain"):
        kind(target="books").fit(taste_across().frame().drop("domain"))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"most": 0}, "most must be"), ({"choose": "best"}, "choose must be one of random, popular"),
     ({"value": "half"}, "value must be one of share, share_of_all, binary"),
     ({"factors": 0}, "factors must")],
)  # fmt: skip
def test_a_wrong_option_is_named_when_the_recipe_is_made(options, message):
    with pytest.raises(OptionError, match=message):
        FMPairCD(target="books", **options)


def test_the_pointwise_machine_can_use_source_items_for_ratings():
    frame = taste_across().frame().with_columns(user_number=pl.col("user").str.slice(1).cast(int))
    even_song = pl.col("user_number") % 2 == 0
    books = frame.with_columns(
        rating=pl.when(even_song).then(5.0).otherwise(1.0) + pl.col("user_number") % 3 * 0.1
    ).drop("user_number")
    data = with_sources(Dataset.from_frame(books), "books", everyone=True)
    model = FM(factors=4).fit(data)
    asked = pl.DataFrame({"user": ["u50", "u51"], "item": ["book4", "book4"]})
    even, odd = model.score(asked)["score"]
    assert even > odd + 1


def new_events(*domains, user="late"):
    """Two events of each domain."""
    return pl.DataFrame(
        {
            "user": [user] * 2 * len(domains),
            "item": [f"{domain[:4]}{n}" for domain in domains for n in (2, 4)],
            "domain": [domain for domain in domains for _ in range(2)],
        }
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", ["update", "fold_in"])
def test_new_events_of_the_target_are_learned_from(kind, verb):
    model = kind(**OPTIONS).fit(taste_across())
    for new in (new_events("books"), new_events("books").drop("domain")):
        grown = getattr(model, verb)(new)
        assert grown.recipe == model.recipe and len(grown.item_ids) == 20
        listed = grown.recommend("late", 5)["item"].to_list()
        assert len(listed) == 5 and not {"book2", "book4"} & set(listed)


def test_the_target_alone_leaves_other_domains_aside():
    model = FMPairTarget(**OPTIONS).fit(taste_across())
    both, books = (
        model.update(new, epochs=2) for new in (new_events("books", "songs"), new_events("books"))
    )
    np.testing.assert_array_equal(both.parameters.users, books.parameters.users)
    assert not any(item.startswith("song") for item in both.item_ids)


@pytest.mark.parametrize("kind", [FMPairCD, FMPairAll])
def test_events_of_other_domains_cannot_be_learned_from_alone(kind):
    model = kind(**{**OPTIONS, "epochs": 1}).fit(taste_across())
    said = f"^{kind.__name__} must be fitted again on all events: it can only be updated with"
    with pytest.raises(OptionError, match=said):
        model.update(new_events("books", "songs"))


@pytest.mark.parametrize("kind", [FMPairCD, FMPairAll])
def test_items_of_other_domains_are_counted_and_passed_over_when_users_are_folded_in(kind):
    model = kind(**{**OPTIONS, "epochs": 1}).fit(taste_across())
    with pytest.warns(Notice, match="2 of 4 events have unknown items and are ignored"):
        grown = model.fold_in(new_events("books", "songs"))
    books = model.fold_in(new_events("books"))
    np.testing.assert_array_equal(grown.parameters.users, books.parameters.users)


def test_all_domains_together_have_no_history():
    frame = taste_across().frame()
    timed = Dataset.from_frame(frame.with_columns(timestamp=pl.int_range(pl.len())))
    with pytest.raises(OptionError, match="history cannot be combined with target in FMPairAll"):
        FMPairAll(**{**OPTIONS, "history": 3}).fit(timed)


def test_users_known_by_other_domains_only_stay_as_they_were_learned():
    model = FMPairAll(**OPTIONS).fit(taste_across())
    grown = model.update(new_events("books"))
    for user in range(50, 60):  # who have no book
        number = model.user_number(f"u{user}")
        one, other = (m.parameters.users[number] for m in (model, grown))
        np.testing.assert_array_equal(one, other)
        assert own_half_first(grown, f"u{user}")


def test_users_keep_their_source_items_after_an_update():
    model = FMPairCD(**OPTIONS).fit(taste_across())
    grown = model.update(new_events("books", user="u0"))
    before, after = (m.user_rows.take(np.array([0])).column.tolist() for m in (model, grown))
    assert before and after == before
