"""The sets of events that are measured, written once for all libraries."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np

from fmpair.arrays import distinct_pairs
from fmpair.data import public_sets
from fmpair.data.synthetic import zipf_events

# Name -> users, items, events of generated sets. The series has the shape of MovieLens.
SERIES = {
    "100K": (950, 1_700, 100_000),
    "1M": (6_000, 3_700, 1_000_000),
    "5M": (35_000, 13_000, 5_000_000),
    "20M": (138_000, 27_000, 20_000_000),
}
USER_CODES = (7, 2, 21, 100)  # values of each generated attribute: age, gender, job, region
ITEM_CODES = (20,) * 11
CONTEXT_CODES = (4,) * 8
BOOKS = (70_679, 24_915, 652_514)  # the size of Amazon-book
BOOK_CODES = (20,) * 12


def movielens(folder: Path, name: str) -> str:
    """MovieLens with generated codes for attributes and contexts, as a folder."""
    return _made(folder / name, partial(_movielens, name))


def zipf(folder: Path) -> str:
    """100,000 users, 50,000 items, 2 million events, less the few that repeat."""
    return _made(folder / "zipf", partial(_distinct, 100_000, 50_000, 2_000_000))


def series(folder: Path, name: str) -> str:
    """A generated set of the series; pairs may repeat."""
    return _made(folder / f"zipf-{name}", partial(_generated, *SERIES[name]))


def books(folder: Path) -> str:
    """Generated events with twelve attributes an item, as many as Amazon-book has."""
    return _made(folder / "books", _books)


def held_out(folder: Path) -> tuple[str, str]:
    """MovieLens 1M in two parts: four fifths of the events to learn from, and the rest."""
    whole = movielens(folder, "ml-1m")
    chosen = np.random.default_rng(0).random(len(np.load(Path(whole) / "user.npy"))) < 0.8
    return (
        _made(folder / "ml-1m-train", partial(_part, whole, chosen)),
        _made(folder / "ml-1m-test", partial(_part, whole, ~chosen)),
    )


def _made(folder: Path, make) -> str:
    """The folder of a set, filled where it is not yet there."""
    if not folder.exists():
        arrays, users, items = make()
        folder.mkdir(parents=True)
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        (folder / "size.json").write_text(json.dumps({"users": users, "items": items}))
    return str(folder)


def _movielens(name: str):
    data = public_sets.load(name)
    users, items = len(data.users), len(data.items)
    rng = np.random.default_rng(0)
    arrays = {
        "user": data.user,
        "item": data.item,
        "user_codes": _codes(users, USER_CODES, rng),
        "item_codes": _codes(items, ITEM_CODES, rng),
        "context_codes": _codes(len(data), CONTEXT_CODES, rng),
    }
    return arrays, users, items


def _codes(rows: int, sizes: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """int32 [rows, columns]: values of each column, uniform."""
    return rng.integers(0, sizes, (rows, len(sizes)), dtype=np.int32)


def _generated(users: int, items: int, events: int):
    user, item = zipf_events(users, items, events)
    return {"user": user, "item": item}, users, items


def _books():
    arrays, users, items = _generated(*BOOKS)
    arrays["item_codes"] = _codes(items, BOOK_CODES, np.random.default_rng(0))
    return arrays, users, items


def _distinct(users: int, items: int, events: int):
    """Without repeats: some peers drop them, and all must have the same events."""
    seen = distinct_pairs(*zipf_events(users, items, events), users)
    return {"user": seen.owner.astype(np.int32), "item": seen.column}, users, items


def _part(whole: str, chosen: np.ndarray):
    size = json.loads((Path(whole) / "size.json").read_text())
    arrays = {name: np.load(Path(whole) / f"{name}.npy")[chosen] for name in ("user", "item")}
    return arrays, size["users"], size["items"]
