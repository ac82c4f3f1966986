"""The scores of every user for every item, written out: for models that have no shorter form."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module, metadata
from importlib.util import find_spec
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from fmpair import checks
from fmpair.arrays import Rows, add_repeats, group_rows
from fmpair.capacity import check_memory, memory
from fmpair.data import Dataset
from fmpair.errors import FmpairError, OptionError, TrainingError, UnknownError
from fmpair.features import FeatureSpace
from fmpair.fitted.file_checks import Numbers, check
from fmpair.models.classic.neighbours import interactions

# The library a bridge leads to: whether it is installed, and which version.


@dataclass(frozen=True)
class Requirement:
    """module: what is imported; distribution: what pip installs; extra: fmpair's name for it."""

    module: str
    distribution: str
    extra: str

    def check(self) -> None:
        """Raise, with the command that installs it, where the library is not there."""
        if self.module not in sys.modules and find_spec(self.module) is None:
            raise UnknownError(
                f"{self.distribution} is not installed: pip install 'fmpair[{self.extra}]'"
            )

    def load(self, submodule: str = "") -> ModuleType:
        """The library, or a module of it: `load("als")`."""
        self.check()
        name = f"{self.module}.{submodule}" if submodule else self.module
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what a library says while loading is not for us
                return import_module(name)
        except ImportError as error:
            raise UnknownError(
                f"{name} of {self.distribution} cannot be imported: {error}"
            ) from error

    def provenance(self) -> dict[str, str]:
        """What the report says of the library: its name and version."""
        try:
            version = metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            version = "unknown"
        return {"library": self.distribution, "version": version}


# Where foreign code runs: few threads, and what goes wrong in one line.


def made(what: str, make: Callable[..., Any], options: Mapping[str, Any], **usual: Any) -> Any:
    """make(**options), and of the usual ones those that are not among the options.

    what: whose options they are, such as `implicit's als`.
    """
    try:
        return make(**{**usual, **options})
    except Exception as error:
        raise OptionError(f"{what} refuses its options: {one_line(error)}") from error


@contextmanager
def foreign(what: str, threads: int | None = 1) -> Iterator[None]:
    """A block of foreign code: quiet, linear algebra on so many threads, errors as TrainingError.

    Libraries with threads of their own get one thread of linear algebra: pools inside pools make
    training slower by orders of magnitude.
    """
    try:
        said = io.StringIO()  # progress bars and greetings
        with (
            threadpool_limits(threads),
            redirect_stdout(said),
            redirect_stderr(said),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")  # a library's word about itself is not for our callers
            yield
    except FmpairError:
        raise
    except Exception as error:
        raise TrainingError(f"{what} failed: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """What an error says, without line breaks; its type where it says nothing."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


# What the recipes of all bridges check alike.


def check_options(recipe: Any) -> None:
    """The options that every bridge has; the settings are checked by the library itself."""
    if not isinstance(recipe.settings, Mapping):
        raise OptionError(f"settings must be a mapping of names to values, not {recipe.settings!r}")
    checks.whole("seed", recipe.seed, 0)
    checks.threads(recipe.threads)


# Events and feature rows as the sparse matrices that other libraries take.


def csr(rows: Rows, columns: int) -> Any:
    """Sparse rows as a scipy matrix [rows, columns]."""
    from scipy.sparse import csr_matrix

    # 32-bit offsets: what compiled loops of other libraries are written for
    start = rows.start.astype(np.int32) if rows.start[-1] < 2**31 else rows.start
    return csr_matrix((rows.value, rows.column, start), shape=(rows.size, columns))


def ratings(data: Dataset) -> Rows:
    """Per user the distinct items; values are the mean rating, where there is none the weights."""
    rating = data.column("rating")
    if rating is None:
        return interactions(data, "linear")
    total = add_repeats(group_rows(data.user, data.item, len(data.users), rating))
    return total._replace(value=total.value / data.seen.value)


# Factors learned elsewhere, without the biases that stand among them in disguise.


def without_constants(
    data: Dataset, users: np.ndarray, items: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(users' vectors [users, k], items' vectors [items, k], items' biases [items]), float32.

    Where all users have 1 the items have their bias. Where all items have 1 the users have
    theirs, which changes no ranking.
    """
    users, items = np.array(users, np.float32), np.array(items, np.float32)
    met = np.diff(data.seen.start) > 0  # an id without events may be all zeros
    bias_of_items = (users[met] == 1).all(axis=0)
    bias_of_users = (items[np.unique(data.item)] == 1).all(axis=0) & ~bias_of_items
    kept = ~(bias_of_items | bias_of_users)
    bias = items[:, bias_of_items].sum(axis=1)
    return np.ascontiguousarray(users[:, kept]), np.ascontiguousarray(items[:, kept]), bias


SHARE = 0.5  # of the machine's memory that one table may take


@dataclass(frozen=True, eq=False)
class Table:
    """A scorer that looks scores up: float32 [users, items]."""

    table: np.ndarray
    scores_unknown_users: ClassVar[bool] = False

    @classmethod
    def of(cls, table: np.ndarray) -> Table:
        """With items that a model has no score for below all others of the user."""
        usable = np.isfinite(table)
        lowest = np.where(usable, table, np.inf).min(axis=1, keepdims=True, initial=np.inf)
        lowest[np.isinf(lowest)] = 0
        return cls(np.where(usable, table, lowest - 1).astype(np.float32))

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray], space: FeatureSpace) -> Table:
        shape = len(space.users), len(space.items)
        return cls(**check(arrays, {"table": Numbers(shape)}))

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        return self.table[users]

    def arrays(self) -> dict[str, np.ndarray]:
        return {"table": self.table}


def empty_table(what: str, data: Dataset) -> np.ndarray:
    """float32 [users, items] of NaN, for scores to be written into; refused where too large."""
    shape = len(data.users), len(data.items)
    size, most_gb = f"{shape[0]:,} users and {shape[1]:,} items", SHARE * memory() / 2**30
    remedy = "filter the events to a denser core first"
    check_memory(what, size, 4 * shape[0] * shape[1], most_gb, remedy)
    return np.full(shape, np.nan, np.float32)
