"""`Tuned`, the result of tuning; the display of a search; and the file of its fits."""

from __future__ import annotations

import json
import os
import sys
import zlib
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.data import Dataset, as_dataset
from fmpair.data.vector_files import with_vector_paths
from fmpair.errors import DataError
from fmpair.files import check_writable, shown, write_atomically
from fmpair.fitted.recommender import Recommender
from fmpair.training.checkpoint import difference_of
from fmpair.training.search import Budget, Job, Search

METRIC = "ndcg@10"
FILES = ("path", "users", "items", "vectors", "impressions", "groups")  # of the section data
# The split of the experiment file by what the search held out.
SPLITS = {
    "latest": "{kind: leave_last_out, count: 1}",
    "random": "{kind: holdout, test: 0.2}",
    "visits": "{kind: by_session, test: 0.2}",
}


@dataclass(frozen=True, eq=False)
class Tuned:
    """The recipe that tuning found.

    recipe: with its options filled in. trials: one row per setting, numbered from 1, the first that
    of the recipe as given: epochs it was compared after, value on the held-out events, gain over
    the first after as many epochs, its standard error, seconds, whether it is chosen, error, and
    the options.
    event_weights: weights of event types, None for those of the data. complete: False after
    Ctrl-C. held_out: 'latest' or a 'random' event of each user, or whole 'visits'.
    """

    recipe: Any
    trials: pl.DataFrame
    event_weights: Mapping[str, float] | None = None
    complete: bool = True
    held_out: str = "latest"

    def __str__(self) -> str:
        first, best = (self.trials.filter(row).row(0, named=True) for row in ("first", "chosen"))
        trials = str(Budget(trials=len(self.trials)))
        if best["first"]:
            return f"{trials}: none is clearly better than the given options"
        names = self.trials.columns[self.trials.columns.index("error") + 1 :]
        changes = [f"{name} {best[name]}" for name in names if best[name] != first[name]]
        return (
            f"{trials}: {METRIC} {best['value']:.4f} on events held out, "
            f"{best['value'] - best['gain']:.4f} before, with {', '.join(changes)}"
        )

    def fit(self, data: Any, **options: Any) -> Recommender:
        """Fit the recipe to events, with the weights of event types; options: of `FMPair.fit`."""
        return self.recipe.fit(with_event_weights(as_dataset(data), self.event_weights), **options)

    def write(self, path: str | Path, data: str | Path | Mapping[str, Any]) -> None:
        """Write an experiment file, for `fmpair run`, that fits and evaluates the recipe.

        data: the file of events, or the options of the section `data` of an experiment file.
        """
        source: dict[str, Any] = dict(data) if isinstance(data, Mapping) else {"path": str(data)}
        beside = Path(path).absolute().parent
        for name in FILES:
            if isinstance(source.get(name), str | list):
                source[name] = with_vector_paths(
                    source[name], lambda file: Path(os.path.relpath(file, beside)).as_posix()
                )
        if self.event_weights is not None:
            source["event_weights"] = dict(self.event_weights)
        write_atomically(path, self._experiment(source).encode())

    def _experiment(self, source: Mapping[str, Any]) -> str:
        lines = [
            f"# {self}.",
            "# The search saw all events; for a fair comparison tune in each fold, with",
            "# models: [{kind: fm-pair, tune: 5m}].",
            f"data: {_flow(source)}",
            f"split: {SPLITS[self.held_out]}",
            "models:",
            "  - popularity",
            "  - kind: fm-pair",
            "    name: tuned",
            *(f"    {name}: {_flow(value)}" for name, value in self._given().items()),
            *(["protocols: [sessions]"] if self.held_out == "visits" else []),
            f"metrics: [{METRIC}, recall@10]",
            "",
        ]
        return "\n".join(lines)

    def _given(self) -> dict[str, Any]:
        """Return the options of the recipe that differ from the defaults."""
        options = self.recipe.options()
        defaults = {f.name: f.default for f in fields(self.recipe) if f.default is not MISSING}
        return {
            name: value
            for name, value in options.items()
            if (value != defaults[name] if name in defaults else value)
        }


def _flow(value: Any) -> str:
    """Return a value as one line of YAML, of which JSON is a part."""
    return json.dumps(value, ensure_ascii=True, default=str)


def with_event_weights(data: Dataset, weights: Mapping[str, float] | None) -> Dataset:
    """Return the data with these weights of event types, or unchanged."""
    return data if weights is None else data.with_event_weights(weights)


def trials_frame(
    search: Search, fits: Mapping[Job, FitResult], best: int, epochs: Sequence[int]
) -> pl.DataFrame:
    """Return one row per setting that was tried; epochs: by rung."""
    rows, jobs_of = [], defaultdict(list)
    for job in fits:
        jobs_of[job.number].append(job)
    for number, jobs in sorted(jobs_of.items()):
        rung = max(job.rung for job in jobs)
        values, first = (_values(fits, n, rung) for n in (number, 0))
        gain = None if values is None or first is None else values - first
        rows.append({
            "trial": number + 1,
            "epochs": epochs[rung],
            "value": None if values is None else float(values.mean()),
            "gain": None if gain is None else float(gain.mean()),
            "standard_error": None if gain is None else float(gain.std(ddof=1) / len(gain) ** 0.5),
            "seconds": sum(fits[job].seconds for job in jobs),
            "first": number == 0,
            "chosen": number == best,
            "error": next((e for job in jobs if (e := fits[job].error)), None),
            **{name: _plain(value) for name, value in search.settings[number].items()},
        })  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


def _values(fits: Mapping[Job, FitResult], number: int, rung: int) -> np.ndarray | None:
    """Return the values of a setting on a rung with the first seed, which all settings have."""
    fit = fits.get(Job(number, rung))
    return None if fit is None or fit.values is None else fit.values.astype(np.float64)


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, Mapping | list | tuple) else value


# The display of a search.


def shown_trials(
    jobs: Iterator[Job], search: Search, progress: bool | Callable[[str], None]
) -> Iterator[Job]:
    """Yield the fits of a search and show each, with the best so far."""
    with _display(search, progress) as show:
        for job in jobs:
            show(job)
            yield job


def _line(search: Search, job: Job) -> str:
    """Return a line about a fit, and the best so far."""
    score = search.score(job)
    now = "failed" if score == -np.inf else f"{score:.4f}"
    again = ", second seed" if job.repeat else ""
    text = f"trial {job.number + 1} ({_changes(search, job.number)}), stage {job.rung + 1} of "
    text += f"{search.top + 1}{again}: {METRIC} {now}"
    best = _best(search)
    return f"{text}; {best}" if best else text


def _best(search: Search) -> str:
    """Return the best so far and the first on one stage; empty before there is one.

    Scores of different stages are not comparable.
    """
    best = search.best()
    if best is None:
        return ""
    rung = search.compared
    first, top = (search.score(Job(number, rung)) for number in (0, best))
    return f"best so far at stage {rung + 1}: {top:.4f} (trial {best + 1}), first {first:.4f}"


def _changes(search: Search, number: int) -> str:
    """Return what a setting changes of the first one."""
    first, setting = search.settings[0], search.settings[number]
    changed = {name: value for name, value in setting.items() if value != first[name]}
    given = "as given" if number == 0 else "equal"
    return ", ".join(f"{name} {_plain(value)}" for name, value in changed.items()) or given


@contextmanager
def _display(
    search: Search, progress: bool | Callable[[str], None]
) -> Iterator[Callable[[Job], None]]:
    if callable(progress):
        yield lambda job: progress(_line(search, job))
    elif not progress:
        yield lambda job: None
    elif not sys.stderr.isatty():
        yield lambda job: print(_line(search, job), file=sys.stderr, flush=True)
    else:
        with _bar(search) as show:
            yield show


@contextmanager
def _bar(search: Search) -> Iterator[Callable[[Job], None]]:
    """Show a bar of the trials, or of the seconds, that fits a terminal of 80 columns."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("tuning"), BarColumn(10), TaskProgressColumn(), TimeElapsedColumn(),
               TextColumn("{task.description}", markup=False))  # fmt: skip
    total = search.budget.trials or search.budget.seconds
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("the first fit ...", total=total)

        def show(job: Job) -> None:
            done = search.spent if search.budget.trials is None else len(search.settings)
            best = _best(search).replace("best so far", "best")
            bar.update(task, completed=min(done, total or done), description=best)

        yield show


# The file of a search's fits: one line each, so that a killed search continues. A line that was cut
# off by a kill is ignored; fits of another search are refused.

KIND = "fmpair trials 1"
START = json.dumps({"kind": KIND})[:-1].encode()  # how every such file begins


class FitResult(NamedTuple):
    """values: float32 [held-out events], None if it failed; work: seconds without compiling."""

    values: np.ndarray | None
    seconds: float
    work: float
    error: str | None = None


@dataclass(eq=False)
class TrialFile:
    """The fits so far by key; path: None keeps them in memory only."""

    path: Path | None
    fits: dict[str, FitResult] = field(default_factory=dict)

    @classmethod
    def open(cls, path: str | Path | None, search: dict[str, Any]) -> TrialFile:
        """Read the fits of the same search, or begin a file; search: what results depend on."""
        if path is None:
            return cls(None)
        check_writable(path)
        file = cls(Path(path))
        saved = _read(Path(path)) if Path(path).exists() else None
        if saved is None:
            file._append({"kind": KIND, "search": search}, "wb")
            return file
        if difference := difference_of(saved[0], search):
            raise DataError(
                f"{shown(path)} has the trials of {difference}: remove it to start again, or "
                "write to another file"
            )
        file.fits = saved[1]
        return file

    def add(self, key: str, fit: FitResult) -> None:
        """Store a fit; after this it survives a kill."""
        self.fits[key] = fit
        values = fit.values
        text = None if values is None else b64encode(zlib.compress(values.tobytes())).decode()
        mean = None if values is None else float(values.mean())
        self._append({"key": key, "mean": mean, **fit._asdict(), "values": text}, "ab")

    def _append(self, line: dict[str, Any], mode: str) -> None:
        if self.path is None:
            return
        with self.path.open(mode) as file:
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def _read(path: Path) -> tuple[dict[str, Any], dict[str, FitResult]] | None:
    """Return the search and the fits of a file, and truncate an incomplete last line.

    None if the first line is incomplete.
    """
    try:
        content = path.read_bytes()
        complete = content[: content.rfind(b"\n") + 1]
        if not content[: len(START)] == START[: len(content)]:
            raise ValueError("not a file of trials")
        head, *lines = [json.loads(line) for line in complete.splitlines()] or [None]
        saved = None if head is None else (head["search"], {f["key"]: _fit(f) for f in lines})
    except OSError as error:
        raise DataError(f"cannot read {shown(path)}: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, zlib.error) as error:
        raise DataError(
            f"{shown(path)} is not a file of trials, or damaged: remove it to start again"
        ) from error
    if len(complete) < len(content):
        os.truncate(path, len(complete))
    return saved


def _fit(line: dict[str, Any]) -> FitResult:
    text = line["values"]
    values = None if text is None else np.frombuffer(zlib.decompress(b64decode(text)), np.float32)
    return FitResult(values, line["seconds"], line["work"], line["error"])
