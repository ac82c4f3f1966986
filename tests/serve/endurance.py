"""Many requests with faults mixed in: nothing acknowledged is lost or doubled, lists go on.

    python tests/serve/endurance.py --requests 200000

Half of the requests go to a service with PostgreSQL, whose processes are frozen and killed; half to
one with SQLite on a disk that fills up. Meanwhile a worker is killed, models are swapped, broken,
replaced by a pipe, and heads are flooded. One worker is never killed: its memory must stay flat.
Workers are forked with the tables of the first model, which they share; the one that is swapped
with it has a column of lists. It needs root, to mount a small disk, and Debian's PostgreSQL.
"""

import argparse
import http.client
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from under_load import SECONDS, Client, Service, fitted, until

from fmpair.events.store import open_store, pages
from fmpair.fitted.file import has_lists, header_at

READERS, WRITERS = 4, 3
DISK = "size=6m"
HEAD = b"GET /v1/items HTTP/1.1\r\nHost: localhost\r\n"


class Traffic:
    """Clients that ask and tell until so many requests were answered.

    acknowledged: the events that the service said it keeps. waits: seconds from a question to its
    list, over all attempts. attempts: by outcome.
    """

    def __init__(self, service, requests):
        self.service, self.requests = service, requests
        self.acknowledged, self.waits, self.attempts = [], [], Counter()
        self._threads = [
            *(threading.Thread(target=self._tell) for _ in range(WRITERS)),
            *(threading.Thread(target=self._ask, args=(number,)) for number in range(READERS)),
        ]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.requests = 0
        for thread in self._threads:
            thread.join()

    @property
    def done(self):
        return sum(self.attempts.values())

    def _tell(self):
        client = Client(self.service.port)
        while self.done < self.requests:
            seconds = next(SECONDS)
            user, item = f"user-{seconds % 40:03}", f"book-{seconds % 10:03}"
            event = {"user": user, "item": item, "time": seconds, "context": {"note": "x" * 50}}
            status = self._sent(client, "/v1/events", {"events": [event]})
            if status == 200:
                self.acknowledged.append((user, item, seconds * 1_000_000))
            elif status != "lost":
                time.sleep(0.01)
        client.close()

    def _ask(self, number):
        client, dice = Client(self.service.port), random.Random(number)
        while self.done < self.requests:
            question, start = {"user": f"user-{dice.randrange(40):03}", "n": 5}, time.monotonic()
            while self._sent(client, "/v1/recommend", question) != 200:
                time.sleep(0.01)
            self.waits.append(time.monotonic() - start)
        client.close()

    def _sent(self, client, path, body):
        try:
            status, _ = client.ask(path, body)
        except (OSError, http.client.HTTPException, ValueError):
            status = "lost"
            time.sleep(0.02)
        self.attempts[path, status] += 1
        return status


class Faults:
    """What goes wrong, one after another; spared: the worker that is never killed."""

    def __init__(self, service, path, models, dice):
        self.service, self.path, self.models, self.dice = service, path, models, dice
        self.spared = service.workers()[0]
        self.count, self.swaps = Counter(), 0

    def worker_killed(self):
        others = [one for one in self.service.workers() if one != self.spared]
        if others:
            os.kill(self.dice.choice(others), signal.SIGKILL)
        until(lambda: len(self.service.workers()) == 2)

    def model_swapped(self):
        self.swaps += 1
        self._put(self.models[self.swaps % 2])
        time.sleep(1)

    def model_broken(self):
        content = bytearray(self.models[0].read_bytes())
        content[self.dice.randrange(len(content))] ^= 1
        broken = self.path.with_name("broken")
        broken.write_bytes(content)
        self._put(broken)
        time.sleep(0.7)
        self.model_swapped()

    def model_of_others(self):
        self._put(self.models[2])
        self.worker_killed()
        time.sleep(1)
        self.model_swapped()

    def pipe_for_a_model(self):
        os.unlink(self.path)
        os.mkfifo(self.path)
        self.worker_killed()
        time.sleep(0.7)
        self.model_swapped()

    def heads_flooded(self):
        with ExitStack() as stack:
            for _ in range(30):
                own = stack.enter_context(socket.socket())
                own.settimeout(1)
                with suppress(OSError):
                    own.connect(("127.0.0.1", self.service.port))
                    own.sendall(HEAD + b"X-Long: ")
                    for _ in range(200):
                        own.sendall(b"x" * 65_536)

    def connections_flooded(self):
        with ExitStack() as stack:
            for _ in range(700):
                own = stack.enter_context(socket.socket())
                own.settimeout(1)
                with suppress(OSError):
                    own.connect(("127.0.0.1", self.service.port))
                    own.sendall(HEAD)
            time.sleep(1)

    def never_read(self):
        with ExitStack() as stack:
            for _ in range(20):
                own = stack.enter_context(socket.socket())
                own.settimeout(0.5)
                with suppress(OSError):
                    own.connect(("127.0.0.1", self.service.port))
                    for _ in range(100):
                        own.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10)

    def any_of(self, *more):
        """Run one of the faults of every service, or of these."""
        common = (self.worker_killed, self.model_swapped, self.model_broken, self.model_of_others,
                  self.pipe_for_a_model, self.heads_flooded, self.connections_flooded,
                  self.never_read)  # fmt: skip
        # Each once before any a second time.
        rare = min(self.count[one.__name__] for one in (*common, *more))
        fault = self.dice.choice(
            [one for one in (*common, *more) if self.count[one.__name__] == rare]
        )
        self.count[fault.__name__] += 1
        fault()

    def _put(self, source):
        new = f"{self.path}.new"
        shutil.copy(source, new)
        os.replace(new, self.path)


def resident(process):
    """Memory of a process that is its own, in MB."""
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1]) / 1024
    return 0.0


def run(name, url, requests, models, folder, dice, more):
    """Load a service and break things; more: further faults. Return whether all held."""
    path = folder / f"{name}.fmpair"
    shutil.copy(models[0], path)
    with Service(path, "--events", url, "--watch", workers=2) as service:
        faults, memory = Faults(service, path, models, dice), []
        with Traffic(service, requests) as traffic:
            start = time.monotonic()
            while traffic.done < requests:
                faults.any_of(*more)
                memory.append((traffic.done, resident(faults.spared)))
                time.sleep(dice.uniform(0.2, 1.0))
        seconds = time.monotonic() - start
        until(lambda: service.ask("/v1/events", {"events": [{"user": "a", "item": "b"}]})[0] == 200)
        until(lambda: service.ask("/ready")[1]["trouble"] is None)
        memory.append((traffic.done, resident(faults.spared)))
    store = open_store(url)
    stored = Counter(
        (event.user, event.item, event.time) for page in pages(store.after) for event in page
    )
    store.close()
    lost = sum(not stored[event] for event in traffic.acknowledged)
    doubled = sum(stored[event] > 1 for event in traffic.acknowledged)
    waits = sorted(traffic.waits)
    p50, p99, most = (waits[int(len(waits) * q)] for q in (0.5, 0.99, 0.9999))
    print(f"\n{name}: {traffic.done} requests in {seconds:.0f} s, faults: {dict(faults.count)}")
    print(f"  outcomes: {sorted(traffic.attempts.items(), key=str)}")
    print(f"  {len(traffic.acknowledged)} events acknowledged: {lost} lost, {doubled} doubled")
    print(f"  {len(waits)} lists: p50 {p50 * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms, longest "
          f"{waits[-1]:.2f} s (p99.99 {most:.2f} s)")  # fmt: skip
    settled = [size for done, size in memory if done > requests / 4] or [memory[-1][1]]
    print(f"  memory of the spared worker: {settled[0]:.0f} MB after a quarter, {settled[-1]:.0f} "
          f"MB at the end, {max(size for _, size in memory):.0f} MB at most")  # fmt: skip
    return not lost and not doubled and settled[-1] < settled[0] * 1.2 + 20


@contextmanager
def small_disk(place):
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", DISK, "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def with_postgres(requests, models, folder, dice):
    sys.path.append(str(Path(__file__).parents[1]))
    from postgres_server import Server

    with tempfile.TemporaryDirectory(prefix="fmpair-pg-") as place:
        os.chmod(place, 0o755)
        server = Server(Path(place)).make()

        def database_frozen():
            with server.frozen():
                time.sleep(dice.uniform(2, 9))

        def database_killed():
            server.stop()
            time.sleep(dice.uniform(0.5, 4))
            server.start()

        more = (database_frozen, database_killed)
        try:
            return run("postgresql", server.url, requests, models, folder, dice, more)
        finally:
            server.stop()


def with_sqlite(requests, models, folder, dice):
    with small_disk(folder / "disk") as disk:
        filler = disk / "filler"

        def disk_full():
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(b"x" * 4096)
            time.sleep(dice.uniform(4, 7))  # at first there is room in the log, which is used again
            filler.unlink()
            subprocess.run(["mount", "-o", "remount,size=1g", str(disk)], check=True)
            time.sleep(0.5)
            used = shutil.disk_usage(disk).used
            subprocess.run(["mount", "-o", f"remount,size={used + (6 << 20)}", str(disk)],
                           check=True)  # fmt: skip

        return run("sqlite", disk / "events.db", requests, models, folder, dice, (disk_full,))


def check_shared(models):
    """Whether the first model is one whose tables workers share, and the second is not."""
    lists = [has_lists(header_at(path)) for path in models]
    assert lists == [False, True], "workers are to share the tables of one model of two"


def others(folder):
    """A model whose users nobody has asked for."""
    from fmpair.data import synthetic
    from fmpair.models import Popularity

    frame = synthetic.make(users=40, items=60, events=1500).data.frame()
    path = folder / "others.fmpair"
    Popularity().fit(frame.with_columns(user="other-" + frame["user"])).save(path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fmpair-endurance-") as place:
        folder, dice = Path(place), random.Random(given.seed)
        # The workers share the tables of the first, with which they start; the second has lists.
        models = [fitted(folder, f"{n}.fmpair", n, lists=n > 1) for n in (1, 2)]
        check_shared(models)
        models.append(others(folder))
        half = given.requests // 2
        held = [step(half, models, folder, dice) for step in (with_postgres, with_sqlite)]
    print("\nall held" if all(held) else "\nNOT ALL HELD")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
