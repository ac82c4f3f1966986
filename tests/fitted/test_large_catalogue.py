"""Large catalogues: the same lists as small ones, and an index with a measured recall."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, FMPair, load
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import ModelFileError, OptionError
from fmpair.fitted import large_catalogue as large
from fmpair.fitted.file import checksum_of
from fmpair.fitted.question import Question
from fmpair.fitted.recommender import from_factors
from fmpair.models.classic.neighbours import ItemKNN
from fmpair.serve.live_models import LiveModels
from fmpair.serve.model_card import model_card
from fmpair.serve.request_batcher import is_quick
from fmpair.training.growth import with_items

USERS, ITEMS, FACTORS = 60, 4_000, 16


@pytest.fixture(scope="module")
def model():
    """Items around forty centres; whole numbers, so that scores are the same in any order."""
    draw = np.random.default_rng(0)
    centres = draw.integers(-9, 10, (40, FACTORS))
    items = centres[draw.integers(40, size=ITEMS)] + draw.integers(-1, 2, (ITEMS, FACTORS))
    users = centres[draw.integers(40, size=USERS)] + draw.integers(-2, 3, (USERS, FACTORS))
    ids = (Vocabulary(pl.Series(range(size)).cast(pl.String)) for size in (USERS, ITEMS))
    user = np.repeat(np.arange(USERS), 30).astype(np.int32)
    item = draw.integers(0, ITEMS, len(user)).astype(np.int32)
    known = {"": [str(n) for n in range(ITEMS)], "brand": [str(n % 9) for n in range(ITEMS)],
             "price": [n % 101 for n in range(ITEMS)]}  # fmt: skip
    data = Dataset(*ids, user, item, pl.DataFrame(), catalogue=pl.DataFrame(known))
    bias = draw.integers(-3, 4, ITEMS).astype(np.float32)
    return from_factors(FMPair(factors=FACTORS), data, users, items, bias)


@pytest.fixture
def is_large(monkeypatch):
    monkeypatch.setattr(large, "LARGE", 1)


@pytest.fixture
def saved(model, tmp_path, is_large):
    path = tmp_path / "model.fmpair"
    model.save(path)
    return path


def copied(model):
    """A copy that has computed nothing yet."""
    return replace(model, item_side=None)


QUESTIONS = [
    Question("3"),
    Question("7", n=200, exclude_seen=False),
    Question(None, history=["1", "2"]),
    Question("5", candidates=[str(n) for n in range(0, ITEMS, 3)], exclude=["0", "3"]),
    Question("5", n=7, candidates=[str(n) for n in range(0, ITEMS, 150)]),
    Question("5", candidates=[]),
]


def test_lists_do_not_change_with_the_way_they_are_found(model, monkeypatch):
    wanted = copied(model).answers(QUESTIONS)
    damped = copied(model).damped(0.5).answer("3", candidates=[str(n) for n in range(2_000)])
    frame = copied(model).recommend(["1", "2"], 5)
    monkeypatch.setattr(large, "LARGE", 1)
    again = copied(model)
    for one, other in zip(again.answers(QUESTIONS), wanted):
        assert one.items == other.items
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-6)
    assert "matrix" not in again.item_side.__dict__  # which takes as much memory as the model
    items = again.damped(0.5).answer("3", candidates=[str(n) for n in range(2_000)]).items
    assert set(items) == set(damped.items)
    assert again.recommend(["1", "2"], 5).equals(frame)


RULES = [
    {"where": "price<=10"},
    {"where": "price=7", "boost": {"brand": {"3": 5.0}}},
    {"boost": {"brand": {"3": 2.0, "4": -9.0}}, "exclude_shown": [str(n) for n in range(50)]},
    {"where": ["price<=50", "not brand=1,2"], "limit": {"brand": 1}, "n": 7},
    {"limit": {"price": 1}, "n": 90},  # needs more than the first items
    {"diversity": 0.5, "candidates": [str(n) for n in range(2_000)]},
    {"where": "price=200"},
]


def test_rules_do_not_change_with_the_way_lists_are_found(model, monkeypatch):
    def lists(model):
        return [model.answer(user, **rules) for rules in RULES for user in ("3", "8")]

    wanted = lists(copied(model))
    monkeypatch.setattr(large, "LARGE", 1)
    again = copied(model)
    for _ in range(2):  # the second time with what is kept
        assert lists(again) == wanted
    indexed = copied(model)
    large.use_index(indexed, large.build_index(indexed, recall=1))
    assert lists(indexed) == wanted
    assert "matrix" not in again.item_side.__dict__


def test_an_exact_index_finds_every_list(model, saved):
    exact = copied(model).answers(QUESTIONS)
    other = load(saved)
    large.use_index(other, large.build_index(other, recall=1))
    assert other.answers(QUESTIONS) == exact


def test_an_index_is_kept_beside_its_model_with_the_recall_it_was_measured_at(model, saved):
    index = large.build_index(load(saved), 0.95, checksum_of(saved))
    large.save_index(index, large.index_path(saved))
    served = load(saved)
    found = large.load_index(large.index_path(saved), served, checksum_of(saved))
    assert (found.recall, found.reach, found.cells) == (index.recall, index.reach, index.cells)
    assert found.recall >= 0.95 and found.reach < 1 and found.asked == USERS
    assert not found.packed.codes.flags.owndata  # pages of the file, which workers share
    large.use_index(served, found)
    users = [str(user) for user in range(USERS)]
    exact, lists = copied(model).recommend(users), served.recommend(users)
    hits = len(exact.join(lists, on=["user", "item"], how="inner"))
    assert hits / len(exact) == found.recall


def test_an_index_lists_all_that_few_candidates_leave(model, saved):
    served = load(saved)
    large.use_index(served, large.build_index(served, 0.9))
    some = [str(n) for n in range(0, ITEMS, 40)]
    mask = np.zeros(ITEMS, bool)
    mask[:100] = True
    assert len(served.answer("3", 500, candidates=some, exclude_seen=False).items) == len(some)
    many = served.answer("3", 500, candidates=[str(n) for n in range(100)], exclude_seen=False)
    assert sorted(map(int, many.items)) == list(range(100))


def test_an_index_of_another_model_or_a_damaged_one_is_refused(saved, tmp_path):
    model, path = load(saved), large.index_path(saved)
    with pytest.raises(ModelFileError, match=r"there is no index .* run `fmpair index"):
        large.load_index(path, model, checksum_of(saved))
    index = large.build_index(model, 0.9, checksum_of(saved))
    large.save_index(replace(index, model="1" * 64), path)
    with pytest.raises(ModelFileError, match="the index of another model"):
        large.load_index(path, model, checksum_of(saved))
    twice = index.packed._replace(order=np.zeros_like(index.packed.order))
    large.save_index(replace(index, packed=twice), path)
    with pytest.raises(ModelFileError, match="does not hold every item once"):
        large.load_index(path, model, checksum_of(saved))
    less = index.packed._replace(codes=index.packed.codes[:-1])
    large.save_index(replace(index, packed=less), path)
    with pytest.raises(ModelFileError, match="its codes do not fit"):
        large.load_index(path, model, checksum_of(saved))
    content = bytearray(saved.read_bytes())
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="it is not an index"):
        large.load_index(path, model, checksum_of(saved))
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="checksum does not match"):
        large.load_index(path, model, checksum_of(saved))


def test_only_large_models_of_vectors_have_an_index(model, monkeypatch):
    with pytest.raises(OptionError, match="ranked as fast without an index"):
        large.build_index(model)
    monkeypatch.setattr(large, "LARGE", 1)
    with pytest.raises(OptionError, match=r"recall must be from 0\.5 to 1, not 1\.5"):
        large.build_index(model, recall=1.5)
    events = pl.DataFrame({"user": [1, 2], "item": [1, 2], "timestamp": [1, 2]})
    with pytest.raises(OptionError, match="needs a model of vectors"):
        large.build_index(ItemKNN().fit(events))


def test_a_service_answers_by_the_index_and_its_card_says_so(saved, caplog):
    with pytest.raises(ModelFileError, match="there is no index"):
        LiveModels(saved, indexed=True)
    large.save_index(large.build_index(load(saved), 0.9, checksum_of(saved)),
                     large.index_path(saved))  # fmt: skip
    models = LiveModels(saved, indexed=True, threads=1)
    served = models.serving()[0]
    card = model_card(served).index
    assert card.recall >= 0.9 and card.asked == USERS and not card.exact
    assert is_quick(served.model, Question()) and served.model.item_side.threads == 1
    load(saved).damped(0.1).save(saved)  # a new model, whose index is not there yet
    assert models.reload()
    assert model_card(models.serving()[0]).index is None
    assert "answers without an index" in caplog.text


def test_changed_items_keep_index_and_threads_and_give_the_lists_of_a_new_model(is_large):
    draw = np.random.default_rng(0)
    items = {"item": range(400), "kind": [f"k{n % 7}" for n in range(400)]}
    events = {"user": draw.integers(0, 30, 3_000), "item": draw.integers(0, 400, 3_000)}
    data = Dataset.from_frame(events, items=items)
    known = FMPair(factors=8, epochs=1, history=0, order=2, times=False).fit(data)
    large.use_index(known, large.build_index(known, recall=1))
    known.item_side.threads = 1
    known.answer(3)
    ids, kinds = pl.Series([*range(0, 400, 9), 1_000, 1_001]), [f"k{n % 5}" for n in range(47)]
    changed = with_items(known, ids, pl.DataFrame({"kind": kinds}))
    assert changed.item_side.index is not None and changed.item_side.threads == 1
    new = copied(changed)
    np.testing.assert_array_equal(changed.item_vectors, new.item_vectors)
    np.testing.assert_array_equal(changed.item_constants, new.item_constants)
    assert not np.array_equal(known.item_vectors, changed.item_vectors[:400])
    for user in range(30):
        mine, theirs = changed.answer(user, n=20), new.answer(user, n=20)
        assert (mine.items, mine.scores) == (theirs.items, theirs.scores)
