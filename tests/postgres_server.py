"""A PostgreSQL server of the tests' own, from Debian's packages."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

NOBODY = "nobody"  # a server refuses to be run by root


def programs():
    """The folder of PostgreSQL's programs, None where it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    local = shutil.which("initdb")
    return found[-1].parent if found else Path(local).parent if local else None


class Server:
    """A PostgreSQL server in a folder of its own, reached by a socket in that folder."""

    def __init__(self, folder):
        self.folder, self.bin = folder, programs()
        self.user = pwd.getpwuid(os.getuid()).pw_name if os.getuid() else NOBODY
        self.url = f"postgresql://{self.user}@/postgres?host={folder}"

    def run(self, name, *options):
        command = [str(self.bin / name), "-D", str(self.folder / "data"), *options]
        other = {} if os.getuid() else {"user": NOBODY, "extra_groups": []}
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=60,
            stdin=subprocess.DEVNULL, **other,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def make(self):
        if not os.getuid():
            shutil.chown(self.folder, NOBODY)
        self.run("initdb", "--auth=trust", "--no-sync", "-U", self.user)
        self.start()
        return self

    def start(self):
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder}"
        self.run("pg_ctl", "start", "-w", "-l", str(self.folder / "log"), "-o", options)

    def stop(self, mode="immediate"):
        self.run("pg_ctl", "stop", "-m", mode)

    @contextmanager
    def frozen(self):
        """Stop every process of the server: it stays there, and answers nothing."""
        first = (self.folder / "data" / "postmaster.pid").read_text().split()[0]
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        for process in (first, *children):
            os.kill(int(process), signal.SIGSTOP)
        try:
            yield
        finally:
            for process in (first, *children):
                with suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGCONT)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """A server that a whole run of tests shares."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    if programs() is None:
        pytest.skip("PostgreSQL's server is not installed")
    # not under pytest's own folder, which is closed to the user who runs the server
    with tempfile.TemporaryDirectory(prefix="fmpair-pg-") as folder:
        os.chmod(folder, 0o755)
        server = Server(Path(folder)).make()
        try:
            yield server
        finally:
            server.stop()


def emptied(server):
    """The URL of a server's store, with nothing in it."""
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as own:
        tables = (f"fmpair_{name}" for name in ("events", "impressions", "learned", "items"))
        own.execute(f"DROP TABLE IF EXISTS {', '.join(tables)}")
    return server.url
