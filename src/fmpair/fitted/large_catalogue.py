"""Lists of large catalogues: exact by a pass over int8 codes, or approximate by an index.

A catalogue is large where the product of one query with all items is bound by memory. An
`ItemIndex` holds the items in cells; it is built once, kept beside the model file and mapped, so
that the workers of a service share it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fmpair.arrays import Rows, group_rows
from fmpair.errors import ModelFileError, OptionError, named
from fmpair.fitted import file
from fmpair.fitted.file_checks import FLOAT32, FLOAT64, Numbers, Places, Starts, Table, check
from fmpair.fitted.question import query_frame
from fmpair.fitted.top_items import Best
from fmpair.threads import all_threads, blas_on, side_by_side

if TYPE_CHECKING:
    from fmpair.fitted.rules import BoundRules
    from fmpair.fitted.top_items import Ruled
    from fmpair.ranking.compressed import Packed

LARGE = 5_000_000  # numbers of item vectors: 20 MB as float32
FEW_QUERIES = 64  # more are multiplied as matrices, which is bound by arithmetic
SMALL_SHARE = 64  # up to one allowed item in 64: score all of them
PER_THREAD = 4_000_000  # items times queries of a thread, about 10 ms; less does not pay off
SUFFIX = ".index"  # an index file is named MODEL.index
ASKED = 400  # users whose lists set how far to search, and as many others who measure the recall
LENGTH = 10  # length of these lists
SAFETY = 0.7  # share of the allowed misses to use, since other users may miss more
HALVINGS = 10
RECALL = 0.99  # default target
STORED = ("axes", "codes", "facts", "order", "start", "centre", "radius")
CELL_SAMPLE = 64  # items per cell that the centres are fitted to
CELL_ROUNDS = 8  # iterations of k-means
POINTS_AT_ONCE = 1 << 16  # items whose cells a thread finds at a time
COMPARED_AT_ONCE = 1 << 9  # items compared with all centres at a time, so that they stay in cache


@dataclass(frozen=True)
class ItemIndex:
    """The items of a model in cells.

    packed: see `ranking.compressed`; its constants are those of the undamped model. reach: how far
    a search goes, 1 for exact lists. recall: the share of the exact lists of `asked` sampled users
    that it finds, 10 items each. model: the checksum of the model's file.
    """

    packed: Packed
    reach: float
    recall: float
    asked: int
    model: str

    @property
    def cells(self) -> int:
        return len(self.packed.radius)


def is_large(vectors: np.ndarray, queries: int) -> bool:
    """Return whether to rank items [items, factors] by compressed vectors."""
    if vectors.size < LARGE or queries > FEW_QUERIES:
        return False
    from fmpair.jit import MISSING

    return not MISSING


def best_of_many(
    model: Any,
    queries: np.ndarray,
    chosen: np.ndarray | None,
    hidden: Rows,
    n: int,
    threads: int | None = None,
) -> Best:
    """Return what `FactorModel.best` does; queries: float32 [queries, factors]."""
    if chosen is None:
        return _search(model, queries, model.packed, hidden, n, threads)
    allowed = _allowed(model, _only(chosen, model.item_constants))
    hidden = hidden._replace(column=chosen[hidden.column].astype(np.int32))
    item, score, size = _search(model, queries, allowed, hidden, min(n, len(chosen)), threads)
    positions = np.searchsorted(chosen, item).astype(np.int32)
    return np.where(item < 0, np.int32(-1), positions), score, size


def best_under_rules(
    model: Any, queries: np.ndarray, question: Ruled, n: int, threads: int | None = None
) -> Best:
    """Return the n best items that rules allow, as item numbers; limits are ignored.

    queries: float32 [queries, factors], the query vectors.
    """
    rules, hidden = question.rules, question.hidden
    allowed = model.packed if rules.offset is None else _allowed_by(model, rules)
    if question.chosen is not None:
        offset = 0.0 if rules.offset is None else rules.offset
        allowed = _allowed(model, _only(question.chosen, model.item_constants + offset))
    if len(rules.shown):
        owner = np.repeat(np.arange(len(queries)), len(rules.shown))
        column = np.concatenate([hidden.column, np.tile(rules.shown, len(queries))])
        hidden = group_rows(np.concatenate([hidden.owner, owner]), column, len(queries))
    return _search(model, queries, allowed, hidden, n, threads)


@dataclass(frozen=True)
class _Few:
    """The allowed items, if they are few, ascending; constants: float32 [all items]."""

    items: np.ndarray
    constants: np.ndarray


def _only(chosen: np.ndarray, constants: np.ndarray) -> np.ndarray:
    out = np.full(len(constants), -np.inf, np.float32)
    out[chosen] = constants[chosen]
    return out


def _allowed(model: Any, constants: np.ndarray) -> Packed | _Few:
    """Return the items to search; constants: float32 [items], -inf where an item is not allowed."""
    from fmpair.ranking.compressed import with_constants

    left = constants > -np.inf
    if np.count_nonzero(left) * SMALL_SHARE <= len(constants):
        return _Few(np.flatnonzero(left), constants)
    return with_constants(model.packed, constants)


def _allowed_by(model: Any, rules: BoundRules) -> Packed | _Few:
    """Return the items that rules allow, cached while model and catalogue are the same."""
    assert rules.catalogue is not None
    cache: dict[str, Any] = rules.catalogue.cached(("searched", rules.key), dict)
    before = cache.get("before")
    if before is None or before[0] is not model.packed:
        allowed = _allowed(model, model.item_constants + rules.offset)
        before = cache["before"] = model.packed, allowed
    return before[1]


def _search(
    model: Any,
    queries: np.ndarray,
    allowed: Packed | _Few,
    hidden: Rows,
    n: int,
    threads: int | None,
) -> Best:
    """Return the n best of the items allowed, as item numbers."""
    from fmpair.ranking.compressed import top, top_given

    side = model.item_side
    if not isinstance(allowed, _Few):
        reach = None if side.index is None else side.index.reach
        worth = max(len(queries) * len(side.scored) // PER_THREAD, 1)
        threads = min(threads or all_threads(), worth)
        return top(queries, side.scored, allowed, hidden, n, threads, reach)
    few = allowed.items
    position = np.searchsorted(few, hidden.column)
    allowed_too = np.isin(hidden.column, few)
    hidden = group_rows(hidden.owner[allowed_too], position[allowed_too], len(queries))
    best, score, size = top_given(queries, side.scored, allowed.constants, few, hidden, n)
    item = few[best] if len(few) else best
    return np.where(best < 0, np.int32(-1), item).astype(np.int32), score, size


# Indexes


def build_index(model: Any, recall: float = RECALL, checksum: str = "", seed: int = 0) -> ItemIndex:
    """Arrange the items of a model in cells, and measure the recall of a search.

    recall: the target, from 0.5 to 1; 1 makes every list exact. checksum: of the model's file.
    """
    from fmpair.ranking.compressed import pack

    _check_vectors(model)
    if isinstance(recall, bool) or not 0.5 <= recall <= 1:
        raise OptionError(f"{named('recall')} must be from 0.5 to 1, not {recall!r}")
    items, factors = model.item_vectors.shape
    if items * factors < LARGE:
        raise OptionError(
            f"{items:,} items of {factors:,} numbers are ranked as fast without an index, which is "
            f"for {LARGE:,} numbers or more"
        )
    side = model.item_side
    order, start = cells(side.scored, side.constants, math.isqrt(items), seed)
    packed = pack(side.scored, side.constants, order, start)
    tune, test = _samples(model, seed)
    recall_of = _Recall(model, packed, tune)
    reach = 1.0 if recall == 1 else _least_reach(recall_of, 1 - SAFETY * (1 - recall))
    measured = _Recall(model, packed, test)
    return ItemIndex(packed, reach, measured(reach), len(test), checksum)


def _check_vectors(model: Any) -> None:
    if not hasattr(model, "item_side"):
        raise OptionError("an index needs a model of vectors, such as fm-pair")


class _Recall:
    """The share of the exact lists of users that a search finds, by reach."""

    def __init__(self, model: Any, packed: Packed, users: list[Any]):
        from fmpair.ranking.compressed import with_constants

        queries = model.queries(query_frame(model.space, users, None), "features")
        self.packed = with_constants(packed, model.item_constants)
        self.vectors, self.hidden = model.vectors(queries), model.seen_by(queries.user)
        self.scored = model.item_side.scored
        self.exact = self._lists(1.0)

    def _lists(self, reach: float) -> list[set[int]]:
        from fmpair.ranking.compressed import top

        item, _, size = top(
            self.vectors, self.scored, self.packed, self.hidden, LENGTH, reach=reach
        )
        return [set(row[:count].tolist()) for row, count in zip(item, size)]

    def __call__(self, reach: float) -> float:
        hits = sum(len(a & b) for a, b in zip(self.exact, self._lists(reach)))
        return hits / max(sum(map(len, self.exact)), 1)


def _samples(model: Any, seed: int) -> tuple[list[Any], list[Any]]:
    """Return two lists of users, the same one if there are few."""
    ids = model.space.users.ids
    sample = np.random.default_rng(seed).permutation(len(ids))[: 2 * ASKED]
    users = ids.gather(sample).to_list()
    return (users[:ASKED], users[ASKED:]) if len(users) == 2 * ASKED else (users, users)


def _least_reach(recall: _Recall, wanted: float) -> float:
    """Return the smallest reach, to a thousandth, with the wanted recall."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if recall(middle) >= wanted else (middle, high)
    return high


def index_path(model: str | Path) -> Path:
    """Return the path of the index of a model file."""
    return Path(f"{model}{SUFFIX}")


def save_index(index: ItemIndex, path: str | Path) -> None:
    """Write an index to a file, all or nothing."""
    about = {name: getattr(index, name) for name in ("reach", "recall", "asked", "model")}
    header = {"format": file.FORMAT, "sha256": file.BLANK, "index": about}
    file.write(path, {name: getattr(index.packed, name) for name in STORED}, header)


def load_index(path: str | Path, model: Any, checksum: str) -> ItemIndex:
    """Map the index of a model; raise ModelFileError if it is damaged or another model's.

    checksum: of the model's file. Such a file must be replaced, never be written in place.
    """
    from fmpair.ranking.compressed import Packed, with_constants
    from fmpair.ranking.int8_kernels import padded

    _check_vectors(model)
    if not Path(path).is_file():
        name = str(path).removesuffix(SUFFIX)
        raise ModelFileError(f"there is no index {str(path)!r}: run `fmpair index {name}`")
    header, arrays = file.contents(path, mapped=True)
    with file.model_file_errors(path):
        about = _checked(header)
        if about["model"] != checksum:
            raise ModelFileError("it is the index of another model: run `fmpair index` again")
        side = model.item_side
        items, factors = side.vectors.shape
        codes = arrays.pop("codes", np.zeros(0))
        checked = check(arrays, _table(items, factors))
        axes = checked["axes"]
        if codes.dtype != np.int8 or codes.shape != (items, padded(axes.shape[1])):
            raise ModelFileError("its codes do not fit the items of the model")
        if not np.allclose(axes.T @ axes, np.eye(axes.shape[1]), rtol=0, atol=1e-9):
            raise ModelFileError("its axes are not orthonormal")
        if len(checked["start"]) != len(checked["radius"]) + 1:
            raise ModelFileError("its cells do not fit each other")
        if (np.bincount(checked["order"], minlength=items) != 1).any():
            raise ModelFileError("it does not hold every item once")
        nothing = np.zeros(0, np.float32)
        packed = Packed(codes=codes, **checked, constant=nothing, most=nothing, size=0.0)
        return ItemIndex(with_constants(packed, side.constants), **about)


def _checked(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the header says about an index."""
    about = header.get("index")
    if not isinstance(about, dict) or set(about) != {"reach", "recall", "asked", "model"}:
        raise ModelFileError("it is not an index, which `fmpair index` writes")
    shares = [about["reach"], about["recall"]]
    if not all(isinstance(x, int | float) and 0 <= x <= 1 for x in shares):
        raise ModelFileError("its reach and recall must be from 0 to 1")
    return about


def _table(items: int, factors: int) -> Table:
    return {
        "axes": Numbers((factors, "columns"), FLOAT64),
        "facts": Numbers((3, items), FLOAT32),
        "order": Places(("rows",), items),
        "start": Starts(("starts",), "rows"),
        "centre": Numbers(("cells", factors), FLOAT32),
        "radius": Numbers(("cells",), FLOAT32),
    }


def use_index(model: Any, index: ItemIndex) -> None:
    """Let a model search an index from now on; call it before the first answer."""
    model.item_side.use_index(index)


# Cells of similar items, by k-means, for a search that visits few of them.


def cells(
    vectors: np.ndarray, constants: np.ndarray, count: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return items in the order of their cells, int32 [items], and the cells' starts [count + 1].

    vectors: float32 [items, factors]. The constant of an item is one more dimension, so that the
    items of a cell have similar scores for any query. Only the axes with most of the variance are
    used, because the time grows with the number of axes.
    """
    from fmpair.ranking.compressed import main_axes

    axes = main_axes(vectors).astype(np.float32)
    draw = np.random.default_rng(seed)
    size = min(len(vectors), count * CELL_SAMPLE)
    chosen = np.sort(draw.permutation(len(vectors))[:size])
    sample = _points(vectors[chosen], constants[chosen], axes)
    centres = sample[draw.permutation(size)[:count], :-1]
    for _ in range(CELL_ROUNDS):
        centres = _means(sample, _nearest_centres(sample, centres), centres, draw)
    cell = np.empty(len(vectors), np.int32)

    def find_cells(first: int) -> None:
        part = slice(first, first + POINTS_AT_ONCE)
        cell[part] = _nearest_centres(_points(vectors[part], constants[part], axes), centres)

    with blas_on(1):  # threads of our own, one per part, also run the work outside BLAS
        side_by_side(find_cells, range(0, len(vectors), POINTS_AT_ONCE), None)
    start = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=len(centres)))])
    return np.argsort(cell, kind="stable").astype(np.int32), start.astype(np.int64)


def _points(vectors: np.ndarray, constants: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Return float32 [items, axes + 2]: coordinates, constants, and ones."""
    points = np.ones((len(vectors), axes.shape[1] + 2), np.float32)
    points[:, :-2], points[:, -2] = vectors @ axes, constants
    return points


def _nearest_centres(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    half = np.einsum("cf,cf->c", centres, centres) / 2
    by_centre = np.ascontiguousarray(np.column_stack([centres, -half]).T)
    out = np.empty(len(points), np.int64)
    for first in range(0, len(points), COMPARED_AT_ONCE):
        part = slice(first, first + COMPARED_AT_ONCE)
        np.argmax(points[part] @ by_centre, axis=1, out=out[part])
    return out


def _means(
    points: np.ndarray, cell: np.ndarray, centres: np.ndarray, draw: np.random.Generator
) -> np.ndarray:
    """Return the mean of each cell's points; an empty cell starts again at a point."""
    size = np.bincount(cell, minlength=len(centres))
    filled, start = np.flatnonzero(size), np.cumsum(size) - size
    out = points[draw.integers(len(points), size=len(centres)), :-1]
    ordered = points[np.argsort(cell, kind="stable"), :-1]
    out[filled] = np.add.reduceat(ordered, start[filled], axis=0) / size[filled, None]
    return out
