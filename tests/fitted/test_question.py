import gc
import pickle
import weakref

import numpy as np
import polars as pl
import pytest

from fmpair import FMPair
from fmpair.data import Dataset
from fmpair.errors import DataError, Notice, OptionError, UnknownError
from fmpair.fitted import id_lookup
from fmpair.fitted.question import Question
from fmpair.models import ImplicitALS, ItemKNN

USERS, ITEMS = 12, 20


def events() -> pl.DataFrame:
    draw = np.random.default_rng(4)
    count = 400
    user, item = draw.integers(USERS, size=count), draw.integers(ITEMS, size=count)
    return pl.DataFrame(
        {
            "user": [f"u{number}" for number in user],
            "item": [f"i{number} é" for number in item],
            "timestamp": 1_700_000_000 + np.arange(count) * 3600,
            "daytime": draw.choice(["day", "night"], count),
            "tags": [[["a", "b"][one], "c"] for one in draw.integers(2, size=count)],
            "warmth": draw.normal(size=count),
        }
    ).unique(["user", "item"], maintain_order=True)


FRAME = events()
USER_TABLE = pl.DataFrame(
    {
        "user": [f"u{n}" for n in range(USERS)],
        "age": [20 + n % 3 for n in range(USERS)],
        "likes": [["tea", "art", "sea"][n % 2 : n % 2 + 2] for n in range(USERS)],
        "taste": [[n % 4 / 4, 1.0 - n % 3] for n in range(USERS)],
    }
)
OPTIONS = {"factors": 4, "epochs": 20, "init_std": 0.3, "threads": 1}


@pytest.fixture(scope="module", params=["plain", "whole", "history", "time", "damped", "triples"])
def model(request):
    data = Dataset.from_frame(
        FRAME, users=USER_TABLE, context=["daytime", "tags", "warmth"], user="user", item="item"
    )
    if request.param == "history":
        return FMPair(history={"last": 3, "within": "2d"}, **OPTIONS).fit(data)
    if request.param == "time":
        field = {"kind": "time", "parts": ["weekday", "since"]}
        return FMPair(history=2, fields={"timestamp": field}, **OPTIONS).fit(data)
    if request.param == "triples":
        return FMPair(history=0, order=3, **OPTIONS).fit(data)
    fitted = FMPair(history=0, normalize=request.param == "whole", **OPTIONS).fit(data)
    return fitted.damped(0.5) if request.param == "damped" else fitted


QUESTIONS = {
    "a user": {"user": "u3"},
    "n": {"user": "u3", "n": 3},
    "a context": {"user": "u1", "context": {"daytime": "night"}},
    "all contexts": {
        "user": "u1",
        "context": {"daytime": "day", "tags": ["a", "c"], "warmth": 0.25},
    },
    "a context left open": {"user": "u1", "context": {"daytime": None}},
    "a visitor": {"history": ["i3 é", "i5 é", "i3 é"]},
    "nobody with a history of nothing": {"history": []},
    "a user with a history": {"user": "u2", "history": ["i3 é"], "context": {"daytime": "day"}},
    "candidates": {"user": "u2", "candidates": ["i9 é", "i1 é", "i2 é", "i9 é"]},
    "exclude": {"user": "u2", "exclude": ["i9 é", "i1 é", "i2 é"]},
    "both": {"user": "u2", "candidates": ["i9 é", "i1 é", "i2 é"], "exclude": ["i1 é"]},
    "seen items too": {"user": "u2", "exclude_seen": False, "n": 100},
    "an unknown user": {"user": "who", "unknown": "features", "context": {"daytime": "day"}},
    "as for anyone": {"user": "who", "unknown": "popular", "context": {"daytime": "day"}},
    "an unknown value": {"user": "u3", "unknown": "features", "context": {"daytime": "noon"}},
    "a new user with attributes": {
        "user": "new",
        "user_features": {"taste": [0.5, -1.0], "age": 21, "likes": ["tea", "art"]},
        "context": {"daytime": "day"},
    },
    "a new user with one attribute": {"user": "new", "user_features": {"likes": "tea"}},
    "a new user whose attribute is missing": {"user": "new", "user_features": {"age": None}},
    "attributes as for anyone": {"user": "new", "unknown": "popular", "user_features": {"age": 20}},
    "an unseen attribute": {"user": "new", "unknown": "features", "user_features": {"age": 99}},
    "a known user with other attributes": {"user": "u3", "user_features": {"age": 22}},
    "a visitor with attributes": {"history": ["i3 é"], "user_features": {"age": 22}},
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_is_what_recommend_gives(model, name):
    options = dict(QUESTIONS[name])
    answer = model.answer(**options)
    user = options.pop("user", None)
    frame = model.recommend(user, **{"unknown": "error", **options})
    assert answer.items == frame["item"].to_list() and len(answer.items)
    assert answer.scores == pytest.approx(frame["score"].to_list(), rel=1e-5, abs=1e-6)


def test_attributes_describe_a_new_user_and_replace_those_of_a_known_one(model):
    new = model.answer("new", user_features={"age": 21, "likes": ["tea", "art"]})
    assert not new.stranger and new.scores != model.answer().scores
    assert model.answer(user_features={"age": 21, "likes": ["tea", "art"]}).scores == new.scores
    none = model.answer("new", user_features={}, unknown="features")
    assert none.stranger and none.scores == model.answer().scores
    known = model.answer("u3", exclude_seen=False)
    assert model.answer("u3", exclude_seen=False, user_features={}) == known
    assert model.answer("u3", exclude_seen=False, user_features={"age": None}) != known
    own = USER_TABLE.filter(user="u3").drop("user").row(0, named=True)
    again = model.answer("u3", exclude_seen=False, user_features=own)
    assert again.scores == pytest.approx(known.scores, rel=1e-5, abs=1e-6)


def test_a_missing_member_of_a_list_is_left_out(model):
    given = [{"likes": ["tea", None]}, {"likes": ["tea"]}]
    assert len({tuple(model.answer(user_features=one).scores) for one in given}) == 1


def test_no_attributes_leave_every_user_of_a_frame_as_known(model):
    users = ["u1", "u2", "u3"]
    assert model.recommend(users, user_features={}).equals(model.recommend(users))


def test_several_questions_get_the_answers_each_would_get_alone(model):
    questions = [Question(**options) for options in QUESTIONS.values()]
    for together, question in zip(model.answers(questions), questions):
        alone = model.answers([question])[0]
        assert together.items == alone.items
        assert together.scores == pytest.approx(alone.scores, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", ["all contexts", "a visitor", "a user with a history", "exclude"])
def test_the_terms_of_an_item_add_up_to_its_score(model, name):
    answer = model.answer(**QUESTIONS[name], explain=True)
    assert [sum(term[2] for term in terms) for terms in answer.terms] == pytest.approx(
        answer.scores, rel=1e-4, abs=1e-5
    )
    sizes = [abs(term[2]) for term in answer.terms[0]]
    assert sizes == sorted(sizes, reverse=True)


def test_nobody_in_particular_is_a_usual_user(model):
    assert model.answer().items == model.answer(history=[]).items


def test_a_given_time_counts_as_in_a_frame():
    field = {"kind": "time", "parts": ["weekday", "since"]}
    fitted = FMPair(history=2, fields={"timestamp": field}, **OPTIONS).fit(FRAME)
    for time in ("2023-11-20T12:00:00", 1_700_400_000):
        frame = fitted.recommend("u1", 5, time=time)
        assert fitted.answer("u1", 5, time=time).scores == pytest.approx(frame["score"].to_list())
    assert fitted.answer("u1", context={"timestamp": "2023-11-20"}).items
    with pytest.raises(OptionError, match="does not use the time"):
        FMPair(history=0, **OPTIONS).fit(FRAME).answer("u1", time=1_700_400_000)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"user": "u33"}, UnknownError, "unknown user 'u33'. Did you mean 'u3'?"),
        ({"user": 3}, UnknownError, "unknown user '3'"),
        ({"context": {"daytme": "day"}}, UnknownError, "unknown context 'daytme'. Did you mean"),
        ({"context": {"daytime": "dya"}}, UnknownError, "'dya'. Did you mean 'day'?"),
        ({"context": {"warmth": "hot"}}, DataError, "'hot' is not a number"),
        ({"context": {"warmth": [1, 2]}}, DataError, "column 'warmth' holds List"),
        ({"context": "day"}, OptionError, "context must be a mapping"),
        ({"user_features": {"agee": 3}}, UnknownError, "feature 'agee'. Did you mean 'age'?"),
        ({"user_features": {"likes": ["ta"]}}, UnknownError, "'likes' 'ta'. Did you mean 'tea'?"),
        ({"user_features": {"taste": [1]}}, DataError, "the vector of the user has 1 number, but"),
        ({"user_features": {"taste": [1, None]}}, DataError, "of the user has NaN, missing"),
        ({"user_features": [["age", 3]]}, OptionError, "user_features must be a mapping such as"),
        ({"history": ["i99"]}, UnknownError, "unknown item 'i99'"),
        ({"history": "i99"}, OptionError, "history must be a list of items"),
        ({"candidates": ["i99"]}, UnknownError, "unknown item"),
        ({"n": 0}, OptionError, "n must be a whole number of at least 1"),
        ({"unknown": "what"}, OptionError, "unknown must be one of"),
        ({"items": 3}, OptionError, "unknown option 'items'. Did you mean 'candidates'"),
    ],
)
def test_what_is_wrong_with_a_question_is_said(model, options, error, said):
    with pytest.raises(error) as raised:
        model.answer(**options)
    assert said in str(raised.value)


def test_items_not_known_are_passed_over_and_counted_where_that_is_asked_for(model):
    with pytest.warns(Notice, match="3 items of the question are unknown"):
        answer = model.answer(
            "u1",
            history=["i3 é", "x"],
            candidates=["i1 é", "y"],
            exclude=["z"],
            unknown="ignore",
            exclude_seen=False,
        )
    assert answer.passed_over == 3 and answer.items == ["i1 é"]


def test_ids_of_a_large_catalogue_are_looked_up_where_they_lie(model, monkeypatch):
    monkeypatch.setattr(id_lookup, "MAX_HELD", 3)
    large = model.replaced(id_lookup=None)
    assert large.answer("u3", 4) == model.answer("u3", 4)


@pytest.mark.parametrize("dtype", [pl.Int64, pl.Int16, pl.UInt8, pl.Float64, pl.String, pl.Date])
def test_ids_of_any_type_come_back_as_they_were(dtype):
    number = pl.col("item").str.extract(r"(\d+)").cast(pl.Int64)
    frame = FRAME.select("user", item=number.cast(pl.Date if dtype == pl.Date else dtype))
    fitted = FMPair(history=0, **OPTIONS).fit(frame)
    some = fitted.space.items.ids[3]
    answer = fitted.answer("u1", candidates=[some], exclude_seen=False)
    assert answer.items == [some] and type(answer.items[0]) is type(some)
    assert fitted.answer("u1", candidates=[str(some)], exclude_seen=False).items == [some]


def test_true_is_not_the_number_one():
    frame = FRAME.select("user", item=pl.col("item").str.extract(r"(\d+)").cast(pl.Int64))
    fitted = FMPair(history=0, **OPTIONS).fit(frame)
    with pytest.raises(UnknownError, match="unknown item True"):
        fitted.answer("u1", candidates=[True])


def test_a_model_that_has_answered_can_be_sent_to_another_process(model):
    wanted = model.answer("u1", context={"daytime": "day"})
    assert pickle.loads(pickle.dumps(model)).answer("u1", context={"daytime": "day"}) == wanted


def test_a_model_that_has_answered_goes_when_nobody_needs_it(model):
    other = model.replaced(id_lookup=None)
    other.answer("u1", context={"daytime": "day"})
    gone = weakref.ref(other.id_lookup)
    gc.disable()
    try:
        del other
        assert gone() is None  # at once, not when the garbage collector comes round
    finally:
        gc.enable()


def test_further_events_are_known_to_answers():
    fitted = FMPair(history=2, **OPTIONS).fit(FRAME)
    before = fitted.answer("u1")
    later = fitted.extended({"user": ["u1"], "item": [before.items[0]]})
    after = later.answer("u1")
    assert before.items[0] not in after.items and after.scores != before.scores
    assert after.items == later.recommend("u1")["item"].to_list()


@pytest.mark.parametrize("recipe", [ItemKNN(), ImplicitALS(factors=4, epochs=2)])
def test_models_of_other_kinds_answer_by_their_frames(recipe):
    fitted = recipe.fit(FRAME.select("user", "item"))
    for options in ({"user": "u3", "n": 4}, {"user": "u2", "exclude": ["i1 é"]}):
        frame = fitted.recommend(
            options["user"], options.get("n", 10), exclude=options.get("exclude")
        )
        answer = fitted.answer(**options)
        assert answer.items == frame["item"].to_list()
        assert answer.scores == pytest.approx(frame["score"].to_list())
    assert len(fitted.answer(n=3).items) == 3
    assert fitted.answer("who", unknown="features").stranger
    with pytest.raises((OptionError, UnknownError), match=r"user[ _]feature"):
        fitted.answer("who", user_features={"age": 20})
    passed = fitted.answers([Question("u1", candidates=["i1 é", "x"], unknown="ignore")])[0]
    assert passed.passed_over == 1
    with pytest.raises(UnknownError, match="unknown item 'x'"):
        fitted.answer("u1", candidates=["x"])
