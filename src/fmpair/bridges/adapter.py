"""Code that all bridges share, in the order a fit uses it.

It imports the library, checks options, runs foreign code, converts events to sparse matrices, and
stores a trained model as its factors, or as the scores of every user for every item.
"""

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
from fmpair.checks import check_memory, memory
from fmpair.data import Dataset
from fmpair.errors import FmpairError, OptionError, TrainingError, UnknownError
from fmpair.features import FeatureSpace
from fmpair.fitted.file_checks import Numbers, check
from fmpair.models.classic.neighbours import interactions

MEMORY_SHARE = 0.5  # largest share of the memory for one score table


@dataclass(frozen=True)
class Requirement:
    """A library: the module to import, the distribution on PyPI, and the extra of fmpair."""

    module: str
    distribution: str
    extra: str

    def check(self) -> None:
        """Raise, with the command that installs it, if the library is not installed."""
        if self.module not in sys.modules and find_spec(self.module) is None:
            raise UnknownError(
                f"{self.distribution} is not installed: pip install 'fmpair[{self.extra}]'"
            )

    def load(self, submodule: str = "") -> ModuleType:
        """Import the library, or a module of it: `load("als")`."""
        self.check()
        name = f"{self.module}.{submodule}" if submodule else self.module
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a library's warnings at import are not ours
                return import_module(name)
        except ImportError as error:
            text = f"{name} of {self.distribution} cannot be imported: {error}"
            raise UnknownError(text) from error

    def provenance(self) -> dict[str, str]:
        """Return the library's name and version, for the report."""
        try:
            version = metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            version = "unknown"
        return {"library": self.distribution, "version": version}


def check_options(recipe: Any) -> None:
    """Check the options that every bridge has; the library checks the settings itself."""
    if not isinstance(recipe.settings, Mapping):
        raise OptionError(f"settings must be a mapping of names to values, not {recipe.settings!r}")
    checks.whole("seed", recipe.seed, 0)
    checks.threads(recipe.threads)


@contextmanager
def foreign_code(what: str, threads: int | None = 1) -> Iterator[None]:
    """Run a block of foreign code quietly; its errors become TrainingError.

    threads: of linear algebra. It must be 1 for libraries with threads of their own: nested thread
    pools make training slower by orders of magnitude.
    """
    try:
        output = io.StringIO()  # progress bars and the like
        with (
            threadpool_limits(threads),
            redirect_stdout(output),
            redirect_stderr(output),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    except FmpairError:
        raise
    except Exception as error:
        raise TrainingError(f"{what} failed: {one_line(error)}") from error


def construct(what: str, make: Callable[..., Any], settings: Mapping[str, Any], **ours: Any) -> Any:
    """Return make(**settings) with our own options where the settings lack them.

    what: the name of the model in messages, such as `implicit's als`.
    """
    try:
        return make(**{**ours, **settings})
    except Exception as error:
        raise OptionError(f"{what} rejects its settings: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """Return the type and the message of an error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def csr(rows: Rows, columns: int) -> Any:
    """Return sparse rows as a scipy matrix [rows, columns]."""
    from scipy.sparse import csr_matrix

    # Compiled loops of other libraries expect 32-bit offsets.
    start = rows.start.astype(np.int32) if rows.start[-1] < 2**31 else rows.start
    return csr_matrix((rows.value, rows.column, start), shape=(rows.size, columns))


def ratings(data: Dataset) -> Rows:
    """Return each user's distinct items with the mean rating, or the weights without ratings."""
    rating = data.column("rating")
    if rating is None:
        return interactions(data, "linear")
    total = add_repeats(group_rows(data.user, data.item, len(data.users), rating))
    return total._replace(value=total.value / data.seen.value)


def without_constants(
    data: Dataset, users: np.ndarray, items: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return users' vectors [users, k], items' vectors [items, k], items' biases [items].

    Libraries store biases as factors. A factor that is 1 for all users holds the items' biases; one
    that is 1 for all items holds the users' biases, which do not affect rankings. float32.
    """
    users, items = np.array(users, np.float32), np.array(items, np.float32)
    active = np.diff(data.seen.start) > 0  # an id without events may be all zeros
    item_biases = (users[active] == 1).all(axis=0)
    user_biases = (items[np.unique(data.item)] == 1).all(axis=0) & ~item_biases
    learned = ~(item_biases | user_biases)
    bias = items[:, item_biases].sum(axis=1)
    return np.ascontiguousarray(users[:, learned]), np.ascontiguousarray(items[:, learned]), bias


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """A scorer that looks scores up: float32 [users, items]."""

    table: np.ndarray
    scores_unknown_users: ClassVar[bool] = False

    @classmethod
    def of(cls, table: np.ndarray) -> ScoreTable:
        """Return a table in which items without a score rank below all others of the user."""
        usable = np.isfinite(table)
        lowest = np.where(usable, table, np.inf).min(axis=1, keepdims=True, initial=np.inf)
        lowest[np.isinf(lowest)] = 0
        return cls(np.where(usable, table, lowest - 1).astype(np.float32))

    @classmethod
    def restored(
        cls, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows
    ) -> ScoreTable:
        """Return the scorer of a model file, for the method `restore` of recipes."""
        shape = len(space.users), len(space.items)
        return cls(**check(arrays, {"table": Numbers(shape)}))

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        return self.table[users]

    def arrays(self) -> dict[str, np.ndarray]:
        return {"table": self.table}


def empty_table(what: str, data: Dataset) -> np.ndarray:
    """Return float32 [users, items] of NaN to write scores into; raise where it is too large."""
    shape = len(data.users), len(data.items)
    size, most_gb = f"{shape[0]:,} users and {shape[1]:,} items", MEMORY_SHARE * memory() / 2**30
    remedy = "filter the events to a denser core first"
    check_memory(what, size, 4 * shape[0] * shape[1], most_gb, remedy)
    return np.full(shape, np.nan, np.float32)
