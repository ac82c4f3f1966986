"""A service in processes of its own, and clients that count what it acknowledged."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from itertools import count
from pathlib import Path

import polars.selectors as cs

from fmpair.data import synthetic
from fmpair.models import FMPair

PATIENCE = 180  # seconds: machines may be busy with something else
SECONDS = count(1_700_000_000)  # a time of its own for every event, by which it is known again


def fitted(folder, name="model.fmpair", epochs=2, history=3, lists=True):
    """A small model file; its users are user-000, ..., its items book-000 and others.

    lists: whether its items have a column of lists, without which workers share its tables.
    """
    data = synthetic.make(users=40, items=60, events=1500).data
    if not lists:
        known = data.item_table.select(cs.exclude(cs.list()))
        data = data.with_items(known.insert_column(0, data.items.ids.rename("item")))
    path = Path(folder) / name
    plain = {"order": 2, "times": False}  # no trials
    FMPair(factors=8, epochs=epochs, history=history, seed=1, **plain).fit(data).save(path)
    return path


def free_port():
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.getsockname()[1]


def until(condition, seconds=PATIENCE):
    """What a condition gives once it is true; an error when that takes too long."""
    limit = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.02)
    return found


class Service:
    """`fmpair serve` on a port of its own, which stays the same when it is started again."""

    def __init__(self, model, *options, workers=1, **settings):
        self.port = free_port()
        self.command = [sys.executable, "-m", "fmpair", "serve", str(model), "--port",
                        str(self.port), "--workers", str(workers), "--rate", "0",
                        *map(str, options)]  # fmt: skip
        self.settings = settings
        self.process = None
        self._log = Path(tempfile.mkdtemp(prefix="fmpair-serve-")) / "log"
        self._log.touch()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def start(self, wait=True):
        """Start it; wait: until it says that all of it answers."""
        before = len(self.said)
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                self.command,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
                **self.settings,
            )
        if wait:
            self._await(before)
        return self

    def _await(self, before):
        try:
            until(lambda: "http://" in self.said[before:] or self.process.poll() is not None)
        except AssertionError:
            self.kill_all()
            raise
        assert self.process.poll() is None, self.said[before:]

    @property
    def said(self):
        """All that it wrote to standard error."""
        return self._log.read_text()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(PATIENCE)

    def kill_all(self):
        """kill -9 of every process of the service at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def workers(self):
        """The ids of the processes that answer."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                command = (place / "cmdline").read_bytes()
            except (OSError, ValueError):
                continue
            if parent == self.process.pid and b"resource_tracker" not in command:
                found.append(int(place.name))
        return found

    def ask(self, path, body=None):
        """(status, answer) of one request by a connection of its own."""
        client = Client(self.port)
        try:
            return client.ask(path, body)
        finally:
            client.close()


class Client:
    """A connection that is kept; it is made again after an error."""

    def __init__(self, port):
        self.port, self.connection = port, None

    def ask(self, path, body=None):
        """(status, answer); a lost connection is an OSError or an HTTPException."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            text = None if body is None else json.dumps(body)
            self.connection.request("GET" if body is None else "POST", path, text)
            answer = self.connection.getresponse()
            content = answer.read()
        except BaseException:
            self.connection.close()
            self.connection = None
            raise
        if path == "/metrics":
            return answer.status, content.decode()
        return answer.status, json.loads(content)

    def close(self):
        if self.connection is not None:
            self.connection.close()


class Load:
    """Clients that ask and tell without a pause until the block ends.

    acknowledged: (user, item, time) of every event the service said it keeps; asked: how many
    questions were answered; failed: (status, answer) of all that was not; lost: connections.
    """

    def __init__(self, service, writers=3, readers=2):
        self.service, self.stop = service, threading.Event()
        self.acknowledged, self.asked, self.failed, self.lost = [], 0, [], 0
        self._threads = [
            *(threading.Thread(target=self._write) for _ in range(writers)),
            *(threading.Thread(target=self._read, args=(number,)) for number in range(readers)),
        ]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self):
        client = Client(self.service.port)
        while not self.stop.is_set():
            seconds = next(SECONDS)
            user, item = f"user-{seconds % 40:03}", f"book-{seconds % 10:03}"
            events = {"events": [{"user": user, "item": item, "time": seconds}]}
            if self._sent(client, "/v1/events", events):
                self.acknowledged.append((user, item, seconds * 1_000_000))
        client.close()

    def _read(self, number):
        client = Client(self.service.port)
        while not self.stop.is_set():
            if self._sent(client, "/v1/recommend", {"user": f"user-{number:03}", "n": 3}):
                self.asked += 1
        client.close()

    def _sent(self, client, path, body):
        try:
            status, answer = client.ask(path, body)
        except (OSError, http.client.HTTPException):
            self.lost += 1
            time.sleep(0.05)
            return False
        if status != 200:
            self.failed.append((status, answer))
        return status == 200


def kept(store):
    """(user, item, time) of every event of a store."""
    return {(event.user, event.item, event.time) for event in store.after(0, 10_000_000)}
