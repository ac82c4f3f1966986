"""Ray beside threads on this machine, and the cost model of docs/scale.md.

    python benchmarks/scale_ray.py overhead        an epoch on Ray over one on threads, in turns
    python benchmarks/scale_ray.py workers         a round by 1, 2 and 4 workers beside the model
    python benchmarks/scale_ray.py billion         rounds of a billion events beside the model

Each prints a table in Markdown, with the load of the machine while it was measured. What a step, a
byte and a call cost is measured by rounds of a smaller problem, right before each prediction: so
other work on the machine slows both down. Needs the extra `ray`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

os.environ.setdefault("RAY_worker_niceness", "0")  # else load decides, not the work

import numba
import numpy as np
import ray
from ray_cost import Cost, Size, Speed, cost_of_round, speed_seen

from fmpair.arrays import empty_rows
from fmpair.engine import engine
from fmpair.engine.contract import Groups, Parameters, Problem, Settings, Shard, ShardSource

RATE, SEED = 0.05, 1
CHUNK = 10_000  # users whose events are made at a time
NONE = np.zeros(0, np.float32)
CORES = os.cpu_count() or 1
TINY = Size(2_000, 640, 20_000, 8, 64)  # next to nothing to learn, or to move


@numba.njit(nogil=True)
def _draw(users, each, items, out):
    """Items of each user's events, the first ones often, the last ones rarely."""
    for n in range(len(users)):
        for e in range(each):
            x = np.uint64(users[n]) * np.uint64(each) + np.uint64(e + 1)
            x *= np.uint64(0x9E3779B97F4A7C15)
            x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            share = np.float64((x ^ (x >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
            out[n * each + e] = np.int32(items * share * share)


class Generated:
    """Events that are made where they are learned from: `each` for every user."""

    def __init__(self, each: int, items: int) -> None:
        self.each, self.items = each, items

    def __call__(self, users: np.ndarray) -> Iterator[Shard]:
        for first in range(0, len(users), CHUNK):
            some = users[first : first + CHUNK].astype(np.int32)
            item = np.empty(len(some) * self.each, np.int32)
            _draw(some, self.each, self.items, item)
            yield Shard(np.repeat(some, self.each), item)

    def times(self, first: int, last: int) -> np.ndarray:
        """How often each item occurs among the events of some users."""
        out = np.zeros(self.items, np.int64)
        for shard in self(np.arange(first, last)):
            out += np.bincount(shard.item, minlength=self.items)
        return out


def counted(made: Generated, users: int) -> ShardSource:
    """The source of all events; the workers count them."""
    parts = np.linspace(0, users, 17).astype(int)
    count = ray.remote(num_cpus=1)(Generated.times)
    refs = [count.remote(made, a, b) for a, b in pairwise(parts)]
    times = np.sum(ray.get(refs), axis=0)
    return ShardSource(np.full(users, made.each, np.int64), times, made=(made,))


def problem_of(users: int, items: int, user: Any = None, item: Any = None) -> Problem:
    none, no = np.zeros(0, np.int32), np.zeros(0, bool)
    groups = Groups(none, NONE, NONE, NONE, no)
    user, item = (none if a is None else a for a in (user, item))
    return Problem(
        user, item, np.ones(len(user), np.float32), np.broadcast_to(False, len(user)),
        np.ones(items, bool), np.zeros(len(user), np.int32), empty_rows(1), empty_rows(users),
        empty_rows(items), groups, groups,
    )  # fmt: skip


def settings_of(blocks: int, **changes: Any) -> Settings:
    base = Settings(
        SEED, "permutation", blocks, 1000, os.cpu_count() or 1, 0.01, 0.005, 0.005, 0.0, NONE, NONE,
        NONE, NONE, on="ray",
    )  # fmt: skip
    return base._replace(**changes)


def parameters_of(users: int, items: int, factors: int) -> Parameters:
    rng = np.random.default_rng(0)
    vectors = [
        rng.standard_normal((n, factors), np.float32) * np.float32(0.1) for n in (users, items)
    ]
    empty = np.zeros((0, factors), np.float32)
    return Parameters(*vectors, np.zeros(items, np.float32), empty, empty, NONE)


class Rounds:
    """Training on generated events, round by round."""

    def __init__(self, size: Size, workers: int) -> None:
        self.size = size
        made = Generated(size.events // size.users, size.items)
        began = time.perf_counter()
        source = counted(made, size.users)
        first = parameters_of(size.users, size.items, size.factors)
        problem = problem_of(size.users, size.items)
        self.training = engine("ray").begin(problem, first, settings_of(size.blocks), source)
        self.training.crew.most = workers
        self.training._assign(1)
        self.training.whole._set_rates(1, RATE)
        self.training._make_ready(1, RATE, np.zeros(0, np.uint32), 0)
        self.ready = time.perf_counter() - began
        self.turn = 0
        self.run(self.rounds)  # kernels come from the disk, and memory is taken

    @property
    def rounds(self) -> int:
        """Rounds between two checkpoints."""
        return self.training.every

    def run(self, rounds: int) -> tuple[float, float]:
        """Rounds and the checkpoint after them: (seconds of time, seconds of cores for cells)."""
        done = []

        def watched(refs: Any, **options: Any) -> Any:
            answers = ray.get(refs, **options)
            done.extend(one for one in answers if hasattr(one, "seconds"))
            return answers

        self.training.ray = type("Watched", (), {"get": staticmethod(watched), "put": ray.put})
        began = time.perf_counter()
        self.training._rounds(self.turn, self.turn + rounds)
        taken = time.perf_counter() - began
        self.training.ray, self.turn = ray, self.turn + rounds
        return taken, sum(one.seconds for one in done)

    def close(self) -> None:
        self.training.close()


class Calibration:
    """Smaller problems with cells of the same size, by the same number of workers."""

    def __init__(self, small: Size, workers: int) -> None:
        self.small, self.workers = Rounds(small, workers), workers
        self.tiny = Rounds(TINY, workers)

    def speed(self, repeats: int = 5) -> tuple[Speed, float]:
        """(what explains its rounds, seconds of cores for an event), as they are now."""
        rounds, size = 8, self.small.size
        call = _median([self.tiny.run(rounds)[0] / rounds for _ in range(repeats)])
        single, many = [], []
        for _ in range(repeats):
            single += [self.small.run(1)[0] for _ in range(3)]
            many.append(self.small.run(1 + rounds))
        both = _median(single)
        bare = (_median([taken for taken, _ in many]) - both) / rounds
        cores = _median([cores for _, cores in many]) / (1 + rounds)
        found = Speed(0.0, seconds_a_byte(), 0.0, call)
        speed = speed_seen(size, found, bare, both, self.workers, CORES)
        return speed, cores / (size.events / size.blocks)

    def close(self) -> None:
        self.small.close()
        self.tiny.close()


def _median(values: list[float]) -> float:
    return float(np.median(values))


def seconds_a_byte() -> float:
    """Of an array on its way from a worker to the driver, which copies it."""

    @ray.remote(num_cpus=0)  # the workers have all cores
    def array() -> np.ndarray:
        return np.zeros(1 << 20, np.float32)

    out, taken = np.empty(1 << 20, np.float32), []
    for _ in range(7):
        ref = array.remote()
        ray.wait([ref], fetch_local=False)
        began = time.perf_counter()
        out[:] = ray.get(ref)
        taken.append(time.perf_counter() - began)
    return 2 * _median(taken) / out.nbytes  # written as it is read


def table(head: list[str], rows: list[list[Any]]) -> None:
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row) + " |")
    print(f"\nload of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)


def overhead(repeats: int) -> None:
    """Epochs of both engines in turns, on events of the size of MovieLens 1M."""
    users, items, each = 6_040, 3_706, 165
    (shard,) = Generated(each, items)(np.arange(users))
    problem, rows = problem_of(users, items, shard.user, shard.item), []
    for loss, factors, own in (("bpr", 32, {}), ("softmax", 64, {"n_negatives": 57})):
        settings = settings_of(32, loss=loss, **own)
        first, taken = parameters_of(users, items, factors), {"cpu": [], "ray": []}
        trainings = {name: engine(name).begin(problem, first, settings) for name in taken}
        for number in range(1, repeats + 2):
            for name, training in trainings.items():
                began = time.perf_counter()
                training.epoch(number, RATE)
                taken[name].append(time.perf_counter() - began)
        for training in trainings.values():
            training.close()
        cpu, on_ray = (np.array(taken[name][1:]) for name in ("cpu", "ray"))
        rows.append(
            [loss, factors, float(np.median(cpu)), float(np.median(on_ray)),
             float(np.median(on_ray / cpu))]
        )  # fmt: skip
    table(["loss", "factors", "s an epoch on threads", "on Ray", "ratio"], rows)


def workers_beside_model() -> None:
    """Rounds by 1, 2 and 4 workers, with their share of the checkpoints."""
    size, rows = Size(100_000, 20_000, 10_000_000, 32, 32), []
    for count in (1, 2, 4):
        part = size._replace(users=25_000, items=5_000, events=625_000, blocks=8)
        small, whole = Calibration(part, count), Rounds(size, count)
        found = []
        for _ in range(6):
            speed, step = small.speed()
            cost, (taken, cores) = cost_of_round(size, speed, count, CORES), whole.run(4)
            found.append([cost.seconds, taken / 4, step * size.events / size.blocks, cores / 4])
        rows.append([count, cost.passed / 1e6, cost.kept / 1e6, *np.median(found, axis=0).tolist()])
        small.close()
        whole.close()
    table(
        ["workers", "MB passed", "MB of a checkpoint", "s a round, model", "measured",
         "core s, model", "measured"],
        rows,
    )  # fmt: skip


def billion(events: int, repeats: int) -> None:
    """Rounds with a checkpoint, and as many as an epoch has between two, each predicted first."""
    size, rows = Size(events // 500, events // 2000, events, 32, 64), []
    part = size._replace(
        users=size.users // 4, items=size.items // 4, events=size.events // 16, blocks=16
    )
    small, whole = Calibration(part, 2), Rounds(size, 2)
    memory = sum(_resident(name) for name in ("ray::", "scale_ray"))
    print(f"{events:,} events, {size.users:,} users, {size.items:,} items: ready after "
          f"{whole.ready:.0f} s, {memory / 2**30:.1f} GB of memory", flush=True)  # fmt: skip
    for rounds in (1, whole.rounds) * repeats:
        speed, step = small.speed()
        cost = cost_of_round(size, speed, 2, CORES)
        print(
            f"rounds: {rounds}; predicted with a checkpoint: {prediction(cost, rounds)}", flush=True
        )
        taken, cores = whole.run(rounds)
        print(f"measured: {taken:.3f} s", flush=True)
        predicted, load = cost.bare * rounds + cost.keeping, os.getloadavg()[0]
        wanted = step * size.events / size.blocks * rounds
        rows.append([rounds, wanted, cores, predicted, taken, 100 * (predicted / taken - 1), load])
    small.close()
    whole.close()
    table(
        ["rounds", "core s, model", "measured", "s with a checkpoint, model", "measured",
         "model is more by %", "load"],
        sorted(rows, key=lambda row: row[0]),
    )  # fmt: skip


def prediction(cost: Cost, rounds: int) -> str:
    return (f"{cost.bare * rounds + cost.keeping:.3f} s; a round {cost.bare:.3f} s, of it learning "
            f"{cost.learning:.3f}; a checkpoint {cost.keeping:.3f} s")  # fmt: skip


def _resident(name: str) -> int:
    """Bytes of memory of the processes whose command has the name."""
    found = 0
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/cmdline") as file:
                mine = name in file.read()
            with open(f"/proc/{process}/statm") as file:
                found += mine * int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:  # it has just ended
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("question", choices=["overhead", "workers", "billion"])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--events", type=int, default=1_000_000_000)
    options = parser.parse_args()
    cores = {"overhead": 2, "workers": 12, "billion": 6}[options.question]
    ray.init(
        "local", num_cpus=cores, include_dashboard=False, log_to_driver=False,
        logging_level="ERROR", object_store_memory=2 << 30,
    )  # fmt: skip
    if options.question == "overhead":
        overhead(options.repeats)
    elif options.question == "workers":
        workers_beside_model()
    else:
        billion(options.events, options.repeats)


if __name__ == "__main__":
    main()
