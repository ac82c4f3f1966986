"""Mistakes in Python: each message names what is wrong, and what would be right works when typed.

A row: the mistake, a part of the message that names what is wrong, one that stands both in the
message and in what is typed next, and what is typed next.
"""

import warnings
from functools import cache
from pathlib import Path

import polars
import polars as pl
import pytest

import fmpair
from fmpair import Dataset, Field, FMPair, evaluate, load, read
from fmpair.errors import FmpairError, Notice
from fmpair.testing import day_and_night

DATA = day_and_night()
FRAME = DATA.frame()
RECIPE = FMPair(factors=4, epochs=2)
NAMES = {
    "fmpair": fmpair, "polars": polars, "pl": pl, "Path": Path, "Dataset": Dataset, "Field": Field,
    "FMPair": FMPair, "evaluate": evaluate, "load": load, "read": read,
    "data": DATA, "frame": FRAME, "recipe": RECIPE,
}  # fmt: skip


@cache
def learned():
    return RECIPE.fit(DATA)


FILES = {
    "clicks.csv": "user,item\nann,maps\nbob,mail\nann,mail\n",
    "latin.csv": "user,item\nJosé,maps\nbob,mail\n",
    "semicolons.csv": "user;item\nann;maps\nbob;mail\n",
    "ragged.csv": "user,item,time\nann,maps,day\nbob,mail\ncem,maps,night\n",
    "headless.csv": "1,2\n3,4\n",
    "gaps.csv": "user,item\nann,maps\n,mail\nbob,mail\n",
}

MISTAKES = [
    # Options of a model
    ("FMPair(n_factors=8)", "unknown option 'n_factors'", "factors", "FMPair(factors=8)"),
    ("FMPair(factors=0)", "factors must be a whole number of at least", "1", "FMPair(factors=1)"),
    ("FMPair(loss='bprr')", "loss must be one of", "'bpr'", "FMPair(loss='bpr')"),
    ("FMPair(lr=0.1)", "unknown option 'lr'", "learning_rate", "FMPair(learning_rate=0.1)"),
    ("FMPair(device='gpu')", "not 'gpu'", "'cuda'", "FMPair(device='cuda')"),
    ("recipe.fit(frame, metric='ndgc@10')", "unknown metric 'ndgc'", "ndcg",
     "FMPair(factors=4, epochs=1).fit(frame, metric='ndcg@10')"),
    ("FMPair(learning_rate='fast')", "learning_rate must be a number", "0",
     "FMPair(learning_rate=0.1)"),
    ("FMPair(negative_sampler='popular')", "negative_sampler must be one of", "'popularity'",
     "FMPair(negative_sampler='popularity')"),
    ("Field(kind='binend')", "kind must be one of", "'binned'", "Field(kind='binned')"),
    ("FMPair(fields={'tiem': 'categorical'}).fit(frame)", "unknown field 'tiem'", "'time'",
     "FMPair(factors=4, epochs=1, fields={'time': 'categorical'}).fit(frame)"),
    ("FMPair(regularization={'usr': 0.1}).fit(frame)", "unknown regularization 'usr'", "'user'",
     "FMPair(factors=4, epochs=1, regularization={'user': 0.1}).fit(frame)"),
    ("fmpair.FMPairs()", "no attribute 'FMPairs'", "FMPair", "fmpair.FMPair()"),
    ("FMPair(factors=100_000, epochs=1).fit(frame)", "factors can be 2,048 at most", "2",
     "FMPair(factors=2, epochs=1).fit(frame)"),
    ("FMPair().recommend('ann')", "FMPair is not fitted yet", "fit(",
     "FMPair(factors=4, epochs=1).fit(frame).recommend()"),
    ("recipe.predict(frame)", "FMPair is not fitted yet", "model.score", "model.score(frame)"),
    # What a model is fitted to
    ("recipe.fit(frame, epochs=1)", "epochs is an option of the model", "FMPair(epochs=",
     "FMPair(epochs=1, factors=4).fit(frame)"),
    ("recipe.fit(frame, verbose=True)", "unknown option 'verbose'", "progress",
     "recipe.fit(frame, progress=False)"),
    ("recipe.fit('clicks.csv')", "expected a frame", "fmpair.read('clicks.csv')",
     "recipe.fit(fmpair.read('clicks.csv'))"),
    ("recipe.fit([('ann', 'maps')])", "got list", "polars.DataFrame({'user': [",
     "recipe.fit(polars.DataFrame({'user': ['ann', 'bob'], 'item': ['maps', 'mail']}))"),
    ("recipe.fit(pl.DataFrame({'wer': [1, 2], 'item': [3, 4]}))", "no user column found",
     "Dataset.from_frame",
     "recipe.fit(Dataset.from_frame(pl.DataFrame({'wer': [1, 2], 'item': [3, 4]}), user='wer'))"),
    ("recipe.fit(frame, validation=2)", "validation must be a share", "0",
     "recipe.fit(frame, validation=0.2)"),
    # Files and frames
    ("read('click.csv')", "there is no file click.csv", "'clicks.csv'", "read('clicks.csv')"),
    ("read('latin.csv')", "is not utf-8 text", "encoding='latin-1'",
     "read('latin.csv', encoding='latin-1')"),
    ("read('semicolons.csv', separator=',')", "a single column", "separator=';'",
     "read('semicolons.csv', separator=';')"),
    ("read('ragged.csv')", "line 3 has 2 columns", "ragged='drop'",
     "read('ragged.csv', ragged='drop')"),
    ("read('headless.csv')", "has numbers, not column names", "header=False",
     "read('headless.csv', header=False, columns=['user', 'item'])"),
    ("read('clicks.csv', sep=',')", "unknown option 'sep'", "separator",
     "read('clicks.csv', separator=',')"),
    ("read('clicks.csv', user='usr')", "unknown column for user 'usr'", "'user'",
     "read('clicks.csv', user='user')"),
    ("read('clicks.csv', format='cvs')", "unknown format 'cvs'", "'csv'",
     "read('clicks.csv', format='csv')"),
    ("read('gaps.csv', missing='error')", "1 missing user ids", "missing='drop'",
     "read('gaps.csv', missing='drop')"),
    ("read('gaps.csv', missing='drp')", "missing must be one of", "'drop'",
     "read('gaps.csv', missing='drop')"),
    ("Dataset.from_frame(frame, item_col='item')", "unknown option 'item_col'", "item",
     "Dataset.from_frame(frame, item='item')"),
    ("Dataset.from_frame(frame, items={'item': [1, 1], 'kind': ['a', 'b']})",
     "more than one row for item 1", "list",
     "Dataset.from_frame(frame, items={'item': [1], 'kind': [list('ab')]})"),
    # Questions to a model
    ("model.recommend('u400')", "unknown user 'u400'", "'u4'", "model.recommend('u4')"),
    ("model.recommend('u1', k=3)", "unknown option 'k'", "n", "model.recommend('u1', n=3)"),
    ("model.recommend(user='u1')", "unknown option 'user'", "users", "model.recommend(users='u1')"),
    ("model.recommend('u1', n=0)", "n must be a whole number of at least", "1",
     "model.recommend('u1', n=1)"),
    ("model.recommend('u1', context={'tiem': 'day'})", "unknown context 'tiem'", "'time'",
     "model.recommend('u1', context={'time': 'day'})"),
    ("model.recommend('u1', context={'time': 'dya'})", "unknown value of context 'time'", "'day'",
     "model.recommend('u1', context={'time': 'day'})"),
    ("model.recommend('u1', context='day')", "context must be a mapping", "{'",
     "model.recommend('u1', context={'time': 'day'})"),
    ("model.recommend(pl.DataFrame({'user': ['u1'], 'tme': ['day']}))", "unknown context 'tme'",
     "'time'", "model.recommend(pl.DataFrame({'user': ['u1'], 'time': ['day']}))"),
    ("model.recommend(['u1', 'u2'], history=[3])", "history takes one visitor", "'history'",
     "model.recommend(pl.DataFrame({'user': ['u1', 'u2'], 'history': [[3], [4]]}))"),
    ("model.recommend(pl.DataFrame({'history': [3]}))", "column 'history' holds Int64", "|",
     "model.recommend(pl.DataFrame({'history': ['3|4']}))"),
    ("model.recommend(history=[3, 99], unknown='eror')", "unknown must be one of", "'error'",
     "model.recommend(history=[3], unknown='error')"),
    ("model.similar_items(1, top_k=3)", "unknown option 'top_k'", "n",
     "model.similar_items(1, n=3)"),
    ("model.score(pl.DataFrame({'user': ['u1']}))", "the frame to score needs a column", "'item'",
     "model.score(pl.DataFrame({'user': ['u1'], 'item': [3]}))"),
    ("model.predict(frame)", "no attribute 'predict'", "score", "model.score(frame)"),
    # Going on, files, evaluation
    ("model.fold_in(pl.DataFrame({'user': ['new'], 'item': [99]}))", "none of the 1 events",
     "update", "model.update(pl.DataFrame({'user': ['new'], 'item': [99]}))"),
    ("model.update(pl.DataFrame({'usr': ['new'], 'item': [9]}))", "no user column found", "'usr'",
     "model.update(Dataset.from_frame(pl.DataFrame({'usr': ['n'], 'item': [9]}), user='usr'))"),
    ("model.save('no/model.fmpair')", "there is no folder", "no",
     "(Path('no').mkdir(), model.save('no/model.fmpair'))"),
    ("load('modle.fmpair')", "cannot read model 'modle.fmpair'", "'model.fmpair'",
     "load('model.fmpair')"),
    ("load('clicks.csv')", "not an fmpair model", "save",
     "(model.save('another.fmpair'), load('another.fmpair'))"),
    ("evaluate(model, data, data, metrics=['ndgc@10'])", "unknown metric 'ndgc'", "ndcg",
     "evaluate(model, data, data, metrics=['ndcg@10'])"),
]  # fmt: skip


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder with the files that the rows speak of."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "latin-1" if name == "latin.csv" else "utf-8")
    learned().save(tmp_path / "model.fmpair")
    monkeypatch.setitem(NAMES, "model", learned())
    monkeypatch.chdir(tmp_path)


def test_there_are_thirty_mistakes_and_more():
    assert len({mistake for mistake, *_ in MISTAKES}) >= 30


@pytest.mark.parametrize(("mistake", "wrong", "right", "typed"), MISTAKES, ids=lambda row: row[:40])
def test_a_message_names_what_is_wrong_and_what_works_when_typed(
    desk, mistake, wrong, right, typed
):
    with pytest.raises((FmpairError, AttributeError)) as caught:
        eval(mistake, NAMES)
    said = str(caught.value)
    assert wrong in said and right in said.replace(wrong, "", 1) and right in typed, said
    assert "\n" not in said and "\ue000" not in said
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)  # the remedy may be to leave something out
        eval(typed, NAMES)
