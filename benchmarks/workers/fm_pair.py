"""fmpair itself, asked in the same way as its peers. No draw is skipped: an event is an update."""

import json
import time
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl
from memory import memory
from serve import serve

from fmpair import Dataset, FMPair
from fmpair.data.synthetic import zipf_events
from fmpair.data.vocabulary import Vocabulary
from fmpair.evaluation import evaluate
from fmpair.ranking.top import item_matrix, ranks
from fmpair.ranking.top import top as best_items


def train(
    folder, factors, threads, epochs, user_columns=0, item_columns=0, context_columns=0, loss="bpr"
):
    """Seconds and effective updates of each epoch, with so many attributes and contexts.

    factors: None for as many as FMPair takes by itself.
    """
    data = _dataset(folder, user_columns, item_columns, context_columns)
    given = {} if factors is None else {"factors": factors}
    recipe = FMPair(loss=loss, epochs=epochs, threads=threads, **given)
    seconds = [epoch.seconds for epoch in recipe.train(data)]
    return {"seconds": seconds, "updates": [len(data)] * epochs}


def curve(folder, factors, threads, epochs, rate, penalty, out):
    """Seconds of each epoch; after each the score's factors are written, outside the clock."""
    recipe = FMPair(loss="bpr", factors=factors, epochs=epochs, threads=threads, learning_rate=rate,
                    regularization=penalty)  # fmt: skip
    seconds = []
    for epoch in recipe.train(_dataset(folder)):
        seconds.append(epoch.seconds)
        model = epoch.recommender()
        items = np.column_stack([model.item_vectors, model.item_constants])
        ones = np.ones((len(model.parameters.users), 1), np.float32)
        np.save(
            Path(out) / f"{epoch.number}-queries.npy", np.hstack([model.parameters.users, ones])
        )
        np.save(Path(out) / f"{epoch.number}-items.npy", items)
    return {"seconds": seconds}


def top(folder, factors, n):
    """Seconds to list the n best unseen items of every user, on all threads.

    recommend: the public call, which makes a frame; for the others see `rank`.
    """
    model = _fitted(folder, factors)
    return {"recommend": _seconds(lambda: model.recommend(n=n)), **rank(folder, factors, n, None)}


def rank(folder, factors, n, threads, users=None):
    """Seconds of the lists as arrays only, of ranks, and of an evaluation, of so many users.

    ranks: that of one item of every user among all; evaluate: of a held-out event of every user,
    from the events to the means.
    """
    model = _fitted(folder, factors)
    seen = model.seen.take(np.arange(users)) if users else model.seen
    queries, target = model.parameters.users[:users], seen.column[seen.start[:-1]]
    train, test = _parts(folder)
    test = test.take(np.flatnonzero(test.user < users)) if users else test

    def items():
        return item_matrix(model.item_vectors, model.item_constants)

    return {
        "kernel": _seconds(lambda: best_items(queries, items(), seen, n, threads)),
        "ranks": _seconds(lambda: ranks(queries, items(), seen, target, threads)),
        "evaluate": _seconds(lambda: evaluate(model, train, test, threads=threads)),
    }


def grow(folder, factors, threads, epochs):
    """Seconds of each epoch and the memory that training takes beyond the program itself."""
    user, item = zipf_events(500, 500, 20_000)
    warm = FMPair(loss="bpr", factors=factors, epochs=1, threads=threads)
    warm.fit(_numbered(user, item, 500, 500))
    idle = memory()[0]
    answer = train(folder, factors, threads, epochs)
    data = _dataset(folder)
    encoded = data.user.nbytes + data.item.nbytes
    return {**answer, "idle": idle, "peak": memory()[1], "encoded": encoded}


@lru_cache(maxsize=1)
def _fitted(folder, factors):
    return FMPair(loss="bpr", factors=factors, epochs=3).fit(_dataset(folder))


@lru_cache(maxsize=1)
def _parts(folder):
    """(all events but the last of every user in the table, those)."""
    data = _dataset(folder)
    last = np.zeros(len(data), bool)
    last[len(data) - 1 - np.unique(data.user[::-1], return_index=True)[1]] = True
    return data.take(np.flatnonzero(~last)), data.take(np.flatnonzero(last))


@lru_cache(maxsize=1)
def _dataset(folder, user_columns=0, item_columns=0, context_columns=0):
    size = json.loads((Path(folder) / "size.json").read_text())
    data = _numbered(_array(folder, "user"), _array(folder, "item"), size["users"], size["items"])
    context = _frame(folder, "context_codes", context_columns)
    return Dataset(
        data.users, data.items, data.user, data.item, context, tuple(context.columns),
        _frame(folder, "user_codes", user_columns), _frame(folder, "item_codes", item_columns),
    )  # fmt: skip


def _numbered(user, item, users, items):
    """Events of numbered users and items, without a frame."""
    names = [Vocabulary(pl.Series(np.arange(size))) for size in (users, items)]
    return Dataset(*names, user, item, pl.DataFrame())


def _frame(folder, name, columns):
    """The first columns of a table of codes, as text: every value is a feature."""
    if not columns:
        return pl.DataFrame()
    codes = _array(folder, name)
    return pl.DataFrame({f"{name[0]}{n}": codes[:, n] for n in range(columns)}).cast(pl.String)


def _array(folder, name):
    return np.load(Path(folder) / f"{name}.npy")


def _seconds(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


serve(train=train, curve=curve, top=top, rank=rank, grow=grow)
