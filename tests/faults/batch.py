"""Many damaged inputs in one process: python -m faults.batch SEED COUNT SAMPLE ...

Each case may use two seconds of processor time, and the process 500 MB more than it has once every
reader is loaded. Prints a line of JSON for each case that breaks a promise, and one at the end with
the counts. The number of the case at work stands in the file PROGRESS names, for the case that ends
the process itself.
"""

import json
import os
import random
import resource
import signal
import sys
import traceback
import warnings
from collections import Counter
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

from faults.mutation import mutated
from faults.samples import SAMPLES
from faults.trial_server import Trials

from fmpair.data.formats import parquet
from fmpair.errors import MAX_LENGTH, ConfigError, FmpairError, Notice

SECONDS, MEGABYTES = 2, 500
EVERY = [content for sample in SAMPLES.values() for content in sample.files.values()]


class TooLong(BaseException):
    """Not an Exception, so that no reader takes it for a mistake of the file."""


def files_of(name: str, seed: int) -> dict[str, bytes]:
    """The sample's files, one of them damaged."""
    rng = random.Random(f"{name} {seed}")
    files = dict(SAMPLES[name].files)
    # The first file is what the reader is about; the others are read on the way.
    target = next(iter(files)) if rng.random() < 0.7 else rng.choice(list(files))
    content = files[target]
    if content.startswith(b"PAR1") and rng.random() < 0.5:  # what the decoder sees, not the reader
        return {**files, target: flipped(content, rng)}
    return {**files, target: mutated(content, rng, EVERY)}


def flipped(content: bytes, rng: random.Random) -> bytes:
    """The content with one or two other bytes, and the marks of its format."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2))):
        changed[rng.randrange(4, len(changed) - 4)] = rng.randrange(256)
    return bytes(changed)


def outcome(name: str, folder: Path) -> str:
    """`read`, `refused`, `caught` (by the border, not by a check), or what is wrong with it."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        SAMPLES[name].read(folder)
    except FmpairError as error:
        return said_well(error)
    except TooLong:
        return f"took more than {SECONDS} seconds: {place_of(sys.exc_info()[2])}"
    except BaseException as error:
        return f"raised {type(error).__name__}: {str(error)[:200]} {place_of(error.__traceback__)}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "read"


def said_well(error: FmpairError) -> str:
    mistakes = error.mistakes if isinstance(error, ConfigError) else [str(error)]
    for line in mistakes:
        if not line or not line.isprintable() or len(line) > MAX_LENGTH + 10:
            return f"says {line[:300]!r}"
        if "does not fit into memory" in line:
            return f"took more than {MEGABYTES} MB: {line[:300]}"
    return "caught" if "cannot read" in mistakes[0] and foreign(error) else "refused"


def foreign(error: FmpairError) -> bool:
    return error.__cause__ is not None and not isinstance(error.__cause__, FmpairError)


def place_of(trace) -> str:
    last = traceback.extract_tb(trace)[-3:]
    return " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(last))


def limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (MEGABYTES << 20),) * 2)


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)


def too_long(*_: object) -> None:
    raise TooLong


def main(first: int, count: int, names: list[str]) -> None:
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", Notice)  # rows left out and counted are rows read
    signal.signal(signal.SIGPROF, too_long)
    trials = Trials()
    # a fork for every file instead of a new process
    vars(parquet)["subprocess"] = SimpleNamespace(run=trials.run, PIPE=None, DEVNULL=None)
    with closing(trials), TemporaryDirectory(prefix="faults-") as place:
        os.chdir(place)
        for name in names:  # loads all that the readers need
            folder = Path(place) / name
            folder.mkdir()
            write(folder, SAMPLES[name].files)
            SAMPLES[name].read(folder)
        limit_memory()
        for name in names:
            counts = counted(name, Path(place) / name, range(first, first + count))
            print(json.dumps({"sample": name, "counts": counts}), flush=True)


def counted(name: str, folder: Path, seeds: range) -> Counter[str]:
    """How many inputs had which outcome; a line for each that breaks a promise."""
    progress, counts = Path(os.environ["PROGRESS"]), Counter[str]()
    for seed in seeds:
        progress.write_text(f"{name} {seed}")
        write(folder, files_of(name, seed))
        found = outcome(name, folder)
        kept = found in ("read", "refused", "caught")
        counts[found if kept else "broken"] += 1
        if not kept:
            print(json.dumps({"sample": name, "seed": seed, "found": found}), flush=True)
    return counts


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
