"""Errors for unknown ids: they quote ids, and suggest the same id in another form."""

from datetime import date

import polars as pl
import pytest

from fmpair.errors import Notice, UnknownError
from fmpair.fitted.id_lookup import unknown_id
from fmpair.models import FMPair

QUICK = FMPair(factors=2, epochs=1, history=0, order=2, times=False, threads=1)


def said(value, known, most=1000):
    return str(unknown_id("user", value, pl.Series(known), most))


@pytest.mark.parametrize(
    ("asked", "known", "suggested"),
    [
        ("17 ", ["18", "17"], "'17'"),
        (" 17\n", ["18", "17"], "'17'"),
        ("17", ["18", " 17"], "' 17'"),
        (17.0, ["18", "17"], "'17'"),
        ("17", ["18", "17.0"], "'17.0'"),
        ("17.0", [18, 17], "17"),
        ("017", ["18", "17"], "'17'"),
        ("17", ["18", "0017"], "'0017'"),
        ("0", ["18", "000"], "'000'"),
        ("ANN", ["bob", "ann"], "'ann'"),
        ("ann", ["bob", "Ann"], "'Ann'"),
        ("17 ", ["017", "17", "0017"], "'17'"),
        ("2024-01-31 ", [date(2024, 1, 30), date(2024, 1, 31)], "'2024-01-31'"),
    ],
)
def test_a_known_id_in_another_form_is_suggested(asked, known, suggested):
    assert f"unknown user {str(asked)!r}. Did you mean {suggested}? " in said(asked, known)


def test_the_same_id_in_another_form_is_found_among_too_many_for_a_search():
    known = [f"user-{number}" for number in range(2_000)]
    assert said("USER-1234", known) == (
        "unknown user 'USER-1234'. Did you mean 'user-1234'? The model knows 2,000 users of type "
        "String, such as 'user-0', 'user-1', 'user-2'"
    )
    assert "Did you mean" not in said("user-9999", known)


def test_ids_are_quoted_and_numbers_are_not():
    assert said("zoe", ["ann", " bob"]) == "unknown user 'zoe'. Known: 'ann', ' bob'"
    assert said("ann1", ["ann", "bob"]).endswith("Did you mean 'ann'? Known: 'ann', 'bob'")
    assert said(99, [1, 2]) == (
        "unknown user 99: the model knows 2 users of type Int64, such as 1, 2"
    )
    assert said("10", ["100", "010x"]).startswith("unknown user '10'. Did you mean '100'?")


def test_notices_and_a_fold_in_of_unknown_items_suggest_it_too():
    events = pl.DataFrame({"user": ["a", "b"] * 3, "item": ["11", "12", "13", "12", "11", "14"]})
    model = QUICK.fit(events)
    with pytest.warns(
        Notice, match=r"the first is '12.0' \(did you mean '12'\?\); unknown='error'"
    ):
        model.recommend("a", exclude=["12.0", "13"])
    new = pl.DataFrame({"user": ["c", "c"], "item": [11.0, 12.5]})
    with pytest.raises(UnknownError, match=r"the first has 11.0 \(did you mean '11'\?\): `update`"):
        model.fold_in(new)
    new = pl.DataFrame({"user": ["c", "c"], "item": ["011", "12"]})
    with pytest.warns(
        Notice, match=r"the first has '011' \(did you mean '11'\?\); unknown='error'"
    ):
        model.fold_in(new)
