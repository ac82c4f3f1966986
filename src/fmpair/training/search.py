"""Search for good options: the settings to try, and successive halving over them.

`Search` decides from the results so far what to run next. The same results lead to the same
trials, so a search is resumed by giving it the stored results again.
"""

from __future__ import annotations

import json
import math
import re
from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from fmpair.checks import whole
from fmpair.errors import OptionError, named

Setting = dict[str, Any]  # values by option name, which may be dotted: regularization.user
UNSET = "(default)"  # the value of an option that is left to the recipe

KEPT = 3  # one in three settings of a rung is tried on the next
ALSO = 0.05  # probability of changing a further option of a new setting
NEAR = 0.1  # standard deviation of a small change, as a share of the range
MAX_PROBES = 6  # values of an option that are tried one after another
TRIES = 50  # random draws of a new setting, before the first untried one is taken
FINALISTS = 3  # settings that are run with a second seed, the first one included
SURE = 1.0  # standard errors by which a setting must be better than the first one
LARGEST_SHARE = 0.2  # largest share of the time for one fit on the last rung
LEAST_SECONDS = 0.05  # a fit counts for at least this: choosing and storing it takes time too
FAILED = (-1, -math.inf)  # where a setting stands of which a fit failed
UNITS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}


@dataclass(frozen=True)
class Range:
    """The values tuning may choose for an option: a list, or low to high; log: on a log scale."""

    values: tuple[Any, ...] = ()
    low: float | None = None
    high: float | None = None
    log: bool = False


@dataclass(frozen=True)
class Budget:
    """The budget of a search: a number of settings to try, or the seconds of its fits."""

    trials: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        if self.seconds is None:
            return "1 trial" if self.trials == 1 else f"{self.trials:,} trials"
        size, unit = next((s, u) for u, s in reversed(UNITS.items()) if self.seconds >= s or s == 1)
        return f"{self.seconds / size:g} {unit}"

    @classmethod
    def of(cls, time: Any, trials: Any) -> Budget:
        """Return the budget of exactly one of a time such as 5m and a number of trials."""
        if (time is None) == (trials is None):
            raise OptionError(
                f"give either {named('budget', '5m')}, a time, or {named('trials', 40)}"
            )
        if time is None:
            whole("trials", trials, 1)
            return cls(trials=trials)
        return cls(seconds=seconds_of(time))


def seconds_of(time: Any) -> float:
    """Return the seconds of a text such as 90s, 5m, 1h or 1h30m."""
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(min|[smhd])\s*", str(time))
    seconds = sum(float(number) * UNITS[unit] for number, unit in parts)
    rest = re.sub(r"(\d+(?:\.\d+)?)\s*(min|[smhd])\s*", "", str(time)).strip()
    if rest or not 0 < seconds < math.inf:
        raise OptionError(f"{named('budget')} must be a time such as 90s, 5m or 2h, not {time!r}")
    return seconds


def canonical(value: Any) -> str:
    """Return JSON that is the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


# The settings to choose from.


@dataclass(frozen=True)
class Space:
    """The ranges of options, and where the search starts.

    start: values by option; UNSET leaves one to the recipe. A missing one, or one outside its
    range, is drawn.
    """

    ranges: Mapping[str, Range]
    start: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int | None:
        """The number of settings, None if it is infinite."""
        counts = [None if (v := self.choices(name)) is None else len(v) for name in self.ranges]
        return None if None in counts else math.prod(count for count in counts if count is not None)

    def choices(self, name: str) -> Sequence[Any] | None:
        """Return the distinct values of an option, None if there are infinitely many."""
        within, start = self.ranges[name], self.start.get(name)
        low, high = within.low, within.high
        if within.values:
            return tuple({canonical(value): value for value in within.values}.values())
        integers = isinstance(low, int) and isinstance(high, int)
        whole = isinstance(start, int) and not isinstance(start, bool)
        if whole or (start in (None, UNSET) and integers):
            return range(int(low or 0), int(high or 0) + 1)
        return None if low != high else (low,)

    def first(self, draws: np.random.Generator) -> Setting:
        """Return the setting to begin with."""
        return {
            name: self.start[name] if self._contains(name) else self._drawn(name, draws)
            for name in self.ranges
        }

    def every(self) -> Iterator[Setting]:
        """Yield all settings of a finite space; the last option varies fastest."""
        values = [self.choices(name) or () for name in self.ranges]
        return (dict(zip(self.ranges, combination)) for combination in product(*values))

    def changed(self, name: str, value: Any, draws: np.random.Generator) -> Any:
        """Return another value of an option: half of the time one near `value`."""
        if draws.random() < 0.5 or value == UNSET:
            return self._drawn(name, draws)
        within, values = self.ranges[name], self.choices(name)
        if within.values:
            assert values is not None
            texts = [canonical(each) for each in values]
            position = texts.index(canonical(value)) if canonical(value) in texts else 0
            return values[(position + (1 if draws.random() < 0.5 else -1)) % len(values)]
        step = draws.normal(0, NEAR)
        return self._at(name, min(max(self._position(name, value) + step, 0.0), 1.0))

    def probes(self, name: str, draws: np.random.Generator) -> list[Any]:
        """Return values of an option to try first.

        Of a list these are the values from its middle outwards, of a range one below and one above
        the start.
        """
        values = self.choices(name)
        if values is not None and not isinstance(values, range):
            middle = (len(values) - 1) / 2
            return sorted(values, key=lambda v: abs(values.index(v) - middle))[:MAX_PROBES]
        known = self._contains(name) and self.start[name] != UNSET
        position = self._position(name, self.start[name]) if known else 0.5
        return [self._at(name, draws.uniform(*ends)) for ends in ((0, position), (position, 1))]

    def _contains(self, name: str) -> bool:
        if name not in self.start:
            return False
        within, value = self.ranges[name], self.start[name]
        if value == UNSET:
            return True
        if within.values:
            return canonical(value) in map(canonical, within.values)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and (within.low or 0) <= value <= (within.high or 0)

    def _drawn(self, name: str, draws: np.random.Generator) -> Any:
        if self.ranges[name].values:
            values = self.choices(name) or ()
            return values[int(draws.integers(len(values)))]
        return self._at(name, draws.random())

    def _at(self, name: str, position: float) -> Any:
        """Return the value at a position from 0 to 1 in a range."""
        low, high = self._ends(name)
        value = low + position * (high - low)
        value = math.exp(value) if self.ranges[name].log else value
        choices = self.choices(name)
        if isinstance(choices, range):
            return min(max(round(value), choices.start), choices.stop - 1)
        return float(f"{value:.4g}")  # readable in tables and files

    def _position(self, name: str, value: float) -> float:
        low, high = self._ends(name)
        value = math.log(value) if self.ranges[name].log else value
        return (value - low) / (high - low) if high > low else 0.0

    def _ends(self, name: str) -> tuple[float, float]:
        within = self.ranges[name]
        low, high = float(within.low or 0), float(within.high or 0)
        return (math.log(low), math.log(high)) if within.log else (low, high)


# What to run next.


class Job(NamedTuple):
    """One fit of a search: a setting on a rung; repeat: 1 for the run with a second seed."""

    number: int
    rung: int = 0
    repeat: int = 0


@dataclass(eq=False)
class Search:
    """Asynchronous successive halving.

    A setting starts on the lowest rung. The best of every KEPT settings is tried on the next rung,
    with more epochs. The first setting is run on every rung. A new setting is the best so far with
    another value of one option: first those of `Space.probes`, then random ones.

    costs: of a fit on each rung, relative to the last one. twice: whether the best of the last
    rung are run with a second seed. results: values by unit, None for a fit that failed. spent:
    the seconds of all fits, with the time to compile.
    """

    space: Space
    budget: Budget
    costs: tuple[float, ...] = (1.0,)
    seed: int = 0
    twice: bool = False
    settings: list[Setting] = field(default_factory=list)
    results: dict[Job, np.ndarray | None] = field(default_factory=dict)
    proposed: set[Job] = field(default_factory=set)
    spent: float = 0.0

    def __post_init__(self) -> None:
        self._draws = np.random.default_rng(self.seed)
        self._tried: set[str] = set()
        # Kept up to date by `tell`, since a search of quick fits has thousands of them.
        self._scores: dict[Job, float] = {}
        self._ranking: dict[int, list[tuple[float, int, int]]] = defaultdict(list)  # by rung
        self._standing: dict[int, tuple[int, float]] = {}  # of a setting: rung and score there
        self._raised: dict[int, set[int]] = defaultdict(set)  # settings proposed, by rung
        self._work: dict[int, tuple[float, int]] = {}  # by rung: seconds without compiling, fits
        self._top = len(self.costs) - 1
        self._last: list[Job] | None = None
        self._add(self.space.first(self._draws))
        names = self.space.ranges
        self._probes = [(n, value) for n in names for value in self.space.probes(n, self._draws)]

    @property
    def top(self) -> int:
        """The last rung of this search."""
        return self._top

    @property
    def compared(self) -> int:
        """The rung where settings are compared: the highest of the first setting and another.

        If the time ends before another one rises, the first one alone has reached the last rung.
        """
        first = {job.rung for job in self.results if job.number == 0}
        others = {job.rung for job in self.results if self._standing[job.number] != FAILED
                  and job.number != 0}  # fmt: skip
        return max(first & others, default=max(first, default=0))

    @property
    def left(self) -> float:
        """The seconds left, infinitely many if the number of trials is the budget."""
        return math.inf if self.budget.seconds is None else self.budget.seconds - self.spent

    @property
    def exhausted(self) -> bool:
        """Whether there is no other setting."""
        return self.space.size is not None and len(self.settings) >= self.space.size

    def ask(self) -> Job | None:
        """Return what to run next, None if the search is over."""
        job = self._next()
        if job is None or not self._affordable(job):
            return None
        self.proposed.add(job)
        self._raised[job.rung].add(job.number)
        return job

    def tell(
        self, job: Job, values: np.ndarray | None, seconds: float, work: float | None = None
    ) -> None:
        """Take the result of a fit; higher values are better. work: seconds without compiling."""
        work = max(seconds if work is None else work, LEAST_SECONDS)
        self.spent += max(seconds, LEAST_SECONDS)
        total, count = self._work.get(job.rung, (0.0, 0))
        self._work[job.rung] = total + work, count + 1
        self.results[job] = values
        mean = math.nan if values is None else float(values.mean(dtype=np.float64))
        self._scores[job] = -math.inf if math.isnan(mean) else mean
        if not job.repeat:
            self._place(job)
        if job == Job(0, job.rung) and job.rung < self._top and not self._may_rise(job.rung, work):
            self._top = job.rung

    def score(self, job: Job) -> float:
        return self._scores[job]

    def best(self) -> int | None:
        """Return the number of the setting to choose; None if no fit succeeded.

        It is the first one, unless another is better by more than the paired standard error.
        """
        if not self.results:
            return None
        rung = self.compared
        numbers = [n for n in self._judged(rung) if self._standing[n] != FAILED]
        judged = {n: score for n in numbers if (score := self._mean_score(n, rung)) is not None}
        if not judged:
            return None
        best = max(judged, key=judged.__getitem__)
        if 0 not in judged or best == 0:
            return best
        gain = self._mean(best, rung) - self._mean(0, rung)
        error = gain.std(ddof=1) / math.sqrt(len(gain)) if len(gain) > 1 else 0.0
        return best if gain.mean() > SURE * error else 0

    def rung_of(self, number: int) -> int:
        """Return the highest rung on which a setting was run."""
        return max(rung for rung in range(len(self.costs)) if Job(number, rung) in self.results)

    # Which fit is next.

    def _next(self) -> Job | None:
        for rung in range(self._top + 1):
            if Job(0, rung) not in self.proposed:
                return Job(0, rung)
        if self._last is None:
            job = self._promoted() or self._new()
            if job is not None and self._affordable(job):
                return job
            if set(self.proposed) - set(self.results):  # fits still running may promote others
                return None
            self._last = self._finals()
        return next((job for job in self._last if job not in self.proposed), None)

    def _promoted(self) -> Job | None:
        """Return a fit of a setting on its next rung: one of KEPT, and any new best."""
        for rung in reversed(range(self._top)):
            ranked, above = self._ranking[rung], self._raised[rung + 1]
            left = len(ranked) // KEPT - len(above)
            for _, _, number in ranked[: max(len(ranked) // KEPT, 1) if left > 0 else 1]:
                if number not in above:
                    return Job(number, rung + 1)
        return None

    def _new(self) -> Job | None:
        """Return the first fit of a new setting, None if no more may be tried."""
        most = self.budget.trials
        if self.exhausted or (most is not None and len(self.settings) >= most):
            return None
        if len(self.settings) > 1 and Job(len(self.settings) - 1) not in self.proposed:
            return Job(len(self.settings) - 1)  # drawn earlier, but there was no time to run it
        for attempt in range(TRIES + len(self._probes)):
            setting = self._changed(attempt)
            if canonical(setting) not in self._tried:
                return self._add(setting)
        if self.space.size is None:
            return None
        untried = (s for s in self.space.every() if canonical(s) not in self._tried)
        return self._add(next(untried))

    def _changed(self, attempt: int) -> Setting:
        """Return the best setting so far, with another value of an option or more."""
        best = self.settings[max(self._standing, key=self._standing.__getitem__, default=0)]
        if self._probes:
            name, value = self._probes.pop(0)
            return {**best, name: value}
        names = list(self.space.ranges)
        turn = names[(len(self.settings) + attempt) % len(names)]
        chosen = [name for name in names if name == turn or self._draws.random() < ALSO]
        return {**best, **{n: self.space.changed(n, best[n], self._draws) for n in chosen}}

    def _add(self, setting: Setting) -> Job:
        self.settings.append(setting)
        self._tried.add(canonical(setting))
        return Job(len(self.settings) - 1)

    def _place(self, job: Job) -> None:
        """Rank a result on its rung, and note where its setting stands; a failure stands last."""
        score, known = self._scores[job], self._standing.get(job.number, (-1, 0.0))
        if score == -math.inf or known == FAILED:
            self._standing[job.number] = FAILED
        else:
            self._standing[job.number] = max(known, (job.rung, score))
        if score != -math.inf:
            ranking = self._ranking[job.rung]
            insort(ranking, (-score, len(ranking), job.number))

    def _ranked(self, rung: int) -> list[int]:
        """Return the settings that succeeded on a rung, the best first."""
        return [number for _, _, number in self._ranking[rung]]

    def _finals(self) -> list[Job]:
        """Return the runs with a second seed: of the first setting and the best others."""
        others = [number for number in self._ranked(self._top) if number != 0]
        if not (self.twice and others):
            return []
        return [Job(number, self._top, 1) for number in (0, *others[: FINALISTS - 1])]

    # Choosing.

    def _judged(self, rung: int) -> list[int]:
        """Return the settings of a rung; if there are some, those run with two seeds."""
        ranked = self._ranked(rung)
        twice = [number for number in ranked if Job(number, rung, 1) in self.results]
        return twice if 0 in twice and len(twice) > 1 else ranked

    def _runs(self, number: int, rung: int) -> list[Job]:
        """Return the runs of a setting on a rung, with one seed or two."""
        return [job for repeat in (0, 1) if (job := Job(number, rung, repeat)) in self.results]

    def _mean_score(self, number: int, rung: int) -> float | None:
        """Return the mean score of a setting over its seeds, None if a run failed."""
        scores = [self._scores[job] for job in self._runs(number, rung)]
        return None if -math.inf in scores else sum(scores) / len(scores)

    def _mean(self, number: int, rung: int) -> np.ndarray:
        """Return the values of a setting on a rung, the mean of its seeds."""
        values = [self.results[job] for job in self._runs(number, rung)]
        return np.mean([np.asarray(each, np.float64) for each in values], axis=0)

    # Time.

    def _affordable(self, job: Job) -> bool:
        return not self.results or self._cost(job) <= self.left

    def _cost(self, job: Job) -> float:
        """Return the seconds that a fit is expected to take."""
        if job.rung in self._work:
            total, count = self._work[job.rung]
            return total / count
        first, count = self._work.get(0, (0.0, 1))
        return first / count * self.costs[job.rung] / self.costs[0]

    def _may_rise(self, rung: int, work: float) -> bool:
        """Return whether fits of the next rung leave time for others; work: seconds of a fit here.

        Each rung is measured before the next: what a fit takes besides its epochs would be
        multiplied if the last rung were judged by the first.
        """
        limit = LARGEST_SHARE * (self.budget.seconds or math.inf)
        return work * self.costs[rung + 1] / self.costs[rung] <= limit
