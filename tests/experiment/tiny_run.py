"""A run small enough for tests, and recipes that misbehave."""

import os
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fmpair import Popularity
from fmpair.config.experiment import (
    Candidate,
    Experiment,
    Output,
    Running,
    Source,
    Step,
    Tuning,
)
from fmpair.errors import TrainingError
from fmpair.models.catalog import find
from fmpair.training.search import Range

# What may differ between two runs of the same experiment.
MEASURED = ("train_seconds", "judge_seconds", "epoch_seconds", "peak_mb", "seconds")
SOURCE = Source(generate={"users": 20, "items": 15, "events": 500, "seed": 0})
POPULARITY = Candidate("popularity", "popularity")
FM = Candidate("FM", "fm-pair", {"factors": 2, "epochs": 2})
TUNED = replace(
    FM, name="tuned", search={"learning_rate": Range(low=0.01, high=0.3, log=True)}
)  # fmt: skip
STOPPING = Candidate("stopping", "fm-pair", {"factors": 2, "epochs": 6}, stop=2, context=())


@dataclass(frozen=True)
class Broken:
    """Cannot be fitted."""

    def fit(self, data):
        raise TrainingError("this one\nalways fails")


@dataclass(frozen=True)
class Deadly:
    """Takes its whole process with it."""

    def fit(self, data):
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Faulty:
    """Another random order for every x; a fault where x is `at`, only once where there is a flag.

    flag: a file that is made when the fault comes.
    """

    x: int = 0
    at: int = 2
    fault: str = "kill"
    flag: str = ""

    def fit(self, data):
        if self.x == self.at and self._first():
            self._fail()
        return find("random")(seed=self.x).fit(data)

    def _first(self):
        """Whether the fault is to come: always without a flag, else in one process only."""
        with suppress(FileExistsError):
            if self.flag:
                Path(self.flag).touch(exist_ok=False)
            return True
        return False

    def _fail(self):
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "disk":
            raise OSError(28, "No space left on device", "scratch")
        raise {"memory": MemoryError, "diverged": TrainingError}[self.fault](f"x is {self.x}")


@dataclass(frozen=True)
class Interrupting:
    """As if someone had pressed Ctrl-C."""

    def fit(self, data):
        raise KeyboardInterrupt


@dataclass(frozen=True)
class Threads:
    """Popularity that tells how many threads it was given."""

    threads: int | None = None
    seed: int = 7

    def fit(self, data):
        return Popularity().fit(data)

    def provenance(self):
        return {"threads": self.threads, "seed": self.seed, "alive": threading.active_count() > 0}


def model(recipe, name="other"):
    """A recipe of this file as a candidate."""
    return Candidate(name, f"{__name__}:{recipe.__name__}")


def experiment(folder, *models, **changes):
    """Two folds with a validation part, judged by two metrics."""
    usual = Experiment(
        "tiny",
        SOURCE,
        models or (POPULARITY, TUNED),
        Step("folds", {"count": 2, "validation": 0.2}),
        metrics=("ndcg@10", "recall@5"),
        tune=Tuning(trials=2),
        run=Running(threads=1),
        output=Output(str(folder), refit=False),
        allow_code=True,  # the recipes of this file
    )
    return replace(usual, **changes)


def tables(results):
    """Everything of a run that must be the same whenever it is made."""
    names = ("cells", "values", "views", "curves", "trials")
    found = {name: getattr(results, name).drop(MEASURED, strict=False) for name in names}
    return {**found, **{f"units {label}": frame for label, frame in results.units.items()}}


def same(one, other):
    """Whether two runs came to the same tables."""
    one, other = tables(one), tables(other)
    return one.keys() == other.keys() and all(one[name].equals(other[name]) for name in one)
