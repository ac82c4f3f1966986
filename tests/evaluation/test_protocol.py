"""Users who choose an item again."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, FMPair, Popularity
from fmpair.config.starter import starter
from fmpair.data import synthetic
from fmpair.data.splits import target
from fmpair.errors import DataError, OptionError, UnknownError
from fmpair.evaluation import Protocol, evaluate
from fmpair.evaluation.protocol import (
    PRESETS,
    default_protocol,
    default_protocol_reason,
    preset,
    repeat_note,
    repeat_share,
    repeated_events,
    repeats_inflate,
)


def test_ids_say_what_results_depend_on():
    paper = Protocol(candidates="uniform", seen="train+test")
    assert paper.id == "interaction/uni1000/seen=train+test/seed0"
    assert Protocol(unit="user").id == "user/all/seen=train"
    assert Protocol(candidates="first", n=50, relevant="new", gain="rating").id == (
        "interaction/first50/seen=train/relevant=new/gain=rating"
    )


def test_protocols_are_equal_when_their_ids_are():
    assert Protocol(n=5) == Protocol(n=6)  # n plays no part with all candidates
    one, two = (Protocol(candidates="file", items=ids) for ids in ([1, 2], [1, 3]))
    assert one != two
    assert one == Protocol(candidates="file", items=np.array([1, 2]))
    assert len({one, two, Protocol(candidates="file", items=pl.Series([1, 2]))}) == 2


def test_sampled_metrics_carry_the_sample_in_their_name():
    assert Protocol(candidates="uniform", n=100).name("recall@10") == "recall@10[uni100]"
    assert Protocol(candidates="train").name("recall@10") == "recall@10"


@pytest.mark.parametrize(
    "wrong",
    [{"unit": "session"}, {"candidates": "some"}, {"seen": "test"}, {"relevant": "?"}, {"n": 0},
     {"after": "me"},
     {"seed": -1}, {"candidates": "file"}, {"items": [1]}],
)  # fmt: skip
def test_options_outside_what_is_allowed_are_refused(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong)) if len(wrong) == 1 else ""):
        Protocol(**wrong)


@pytest.mark.parametrize("items", ["abc", 5, pl.DataFrame({"id": [1]})])
def test_items_that_are_none_are_refused(items):
    with pytest.raises(OptionError, match="items"):
        Protocol(candidates="file", items=items).id


def test_presets_are_the_protocols_people_use():
    assert {name: protocol.id for name, protocol in PRESETS.items()} == {
        "full": "interaction/all/seen=train",
        "full-user": "user/all/seen=train",
        "full-context": "user-context/all/seen=context",
        "one-plus-random": "interaction/uni1000/seen=train+test/seed0",
        "legacy": "interaction/first1000/seen=train+test/relevant=distinct",
        "next-item": "interaction/all/seen=train/relevant=next/after=user",
        "next-item-in-time": "interaction/all/seen=train/relevant=next/after=all",
        "warm": "user/train/seen=train/relevant=warm",
        "cold": "user/cold/seen=train/relevant=cold",
        "sessions": "interaction/train/seen=none/history=test",
        "global-time": "interaction/train/seen=earlier/after=all/history=known",
    }
    assert preset("full") == Protocol()
    with pytest.raises(UnknownError, match="Did you mean 'legacy'"):
        preset("legcy")


NAMES = ("recall@5", "ndcg@5", "auc")


@pytest.fixture(scope="module")
def domains():
    """Training events of all domains and test events of music; the same of music alone."""
    data = synthetic.make(users=80, items=60, events=3000, seed=1).data
    train, _, test = target(data, "music")[0].parts(data)
    alone = train.take((train.columns["domain"] == "music").to_numpy())
    return train, test, alone


def music(**options):
    return Protocol(domain="music", **options)


@pytest.mark.parametrize(
    "options",
    [{}, {"candidates": "train"}, {"unit": "user"}, {"candidates": "first", "n": 5}],
    ids=lambda options: Protocol(**options).id,
)
def test_a_model_of_one_domain_is_worth_the_same_judged_in_it_or_by_itself(domains, options):
    train, test, alone = domains
    model = FMPair(factors=4, epochs=5, threads=1).fit(alone.compact())
    inside = evaluate(model, train, test, music(**options), NAMES)
    by_itself = evaluate(model, alone.compact(), test, Protocol(**options), NAMES)
    assert inside.means == pytest.approx(by_itself.means)
    assert inside.protocol == f"{Protocol(**options).id}/domain=music"


def test_only_items_of_the_domain_are_ranked(domains):
    train, test, alone = domains
    wide, narrow = (
        evaluate(Popularity().fit(train), train, test, protocol, ["popularity@3", "auc"])
        for protocol in (Protocol(seen="none"), music(seen="none"))
    )
    best = np.sort(np.bincount(alone.item))[::-1][:3].mean()
    assert narrow.means["popularity@3"] == pytest.approx(best)
    assert wide.means["popularity@3"] > best
    mine = train.frame().select("user", "item").unique()
    listed = music(candidates="file", items=mine, seen="none")
    assert evaluate(Popularity().fit(train), train, test, listed).coverage == 1


def test_only_events_of_the_domain_are_to_be_found(domains):
    train, test, _ = domains
    found = evaluate(Popularity().fit(train), train, train, music(seen="none"))
    assert len(found.units) == (train.columns["domain"] == "music").sum()
    with pytest.raises(UnknownError, match="Did you mean 'music'"):
        evaluate(Popularity().fit(train), train, test, Protocol(domain="musik"))
    bare = replace(test, columns=test.columns.drop("domain"))
    with pytest.raises(DataError, match="no domains"):
        evaluate(Popularity().fit(train), train, bare, music())


def events(user, item):
    return Dataset.from_frame({"user": user, "item": item})


ONCE = events([1, 1, 2, 2, 3, 3], ["a", "b", "a", "c", "b", "c"])
AGAIN = events([1, 1, 1, 2, 2, 2], ["a", "a", "a", "b", "b", "c"])


def test_the_share_of_repeats_counts_all_parts_together():
    assert repeat_share(ONCE) == 0
    assert repeat_share(AGAIN) == pytest.approx(3 / 6)
    assert repeat_share(ONCE, events([1, 9], ["a", "a"])) == pytest.approx(1 / 8)
    rows = np.arange(6)
    assert repeat_share(AGAIN.take(rows[:4]), AGAIN.take(rows[4:])) == pytest.approx(3 / 6)


def test_the_default_protocol_depends_on_repeats():
    assert default_protocol(ONCE).seen == "train"
    assert default_protocol(AGAIN).seen == "none"
    assert default_protocol_reason(ONCE).startswith(
        "0% of the events repeat an item of their user, so seen"
    )
    assert "50% of the events" in default_protocol_reason(AGAIN)


def test_evaluate_uses_the_default_protocol():
    for data, seen in ((ONCE, "train"), (AGAIN, "none")):
        train, test = data.take(np.array([0, 1, 3, 4])), data.take(np.array([2, 5]))
        found = evaluate(Popularity().fit(train), train, test)
        assert found.protocol == f"interaction/all/seen={seen}"


def test_the_starter_file_uses_the_default_protocol(tmp_path):
    for name, data in (("once", ONCE), ("again", AGAIN)):
        data.frame().write_csv(tmp_path / f"{name}.csv")
        assert f"seen: {default_protocol(data).seen}}}" in starter(tmp_path / f"{name}.csv")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seen": "none"}, "the result is for the next event, repeats included"),
        ({"seen": "train"}, "the result is too high"),
        ({"seen": "none", "relevant": "new"}, "the result is for items new to a user"),
        ({"relevant": "next"}, "the result is for items new to a user"),
        ({"relevant": "cold"}, "the result is for items new to a user"),
    ],
)
def test_a_note_explains_results_with_repeated_items(options, words):
    test = events([1, 2, 9], ["a", "a", "a"])
    note = repeat_note(repeated_events(AGAIN, test), len(test), Protocol(**options))
    assert "1 of 3 test events (33%) repeat an item that their user had in training" in note
    assert words in note
    assert repeated_events(ONCE, events([1], ["c"])) == 0
    assert repeat_note(0, 1, Protocol(**options)) == ""


@pytest.mark.parametrize("seen", ["train", "train+test"])
def test_many_repeats_inflate_results_if_other_seen_items_are_excluded(seen):
    assert repeats_inflate(11, 100, Protocol(seen=seen))
    assert not repeats_inflate(10, 100, Protocol(seen=seen))
    assert not repeats_inflate(90, 100, Protocol(seen="none"))


@pytest.mark.parametrize("relevant", ["new", "next", "cold"])
def test_repeats_inflate_nothing_where_they_are_not_relevant(relevant):
    items = ["a", "b", "c"], ["a", "d", "c"]
    train, test = (
        Dataset.from_frame({"user": [1, 1, 2], "item": chosen, "timestamp": [n, n + 1, n + 2]})
        for n, chosen in zip((1, 4), items)
    )
    protocol = Protocol(relevant=relevant)
    found = evaluate(Popularity().fit(train), train, test, protocol, ["recall@1"])
    assert found.units["item"].to_list() == ["d"], "the repeats of a and c do not count"
    assert repeated_events(train, test) == 2 and not repeats_inflate(2, 3, protocol)
