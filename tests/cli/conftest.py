"""A small world as files, a model fitted to it, and a way to run command lines in this process."""

import io
import sys
from types import SimpleNamespace

import pytest

from fmpair.cli import run
from fmpair.report import figures


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A folder with events.csv, users.csv, items.csv, events.parquet and model.fmpair."""
    folder = tmp_path_factory.mktemp("world")
    size = ["--users", "30", "--items", "20", "--events", "600"]
    for format in ("csv", "parquet"):
        assert run(["data", "make", str(folder), *size, "--format", format]) == 0
    arguments = ["fit", f"{folder}/events.csv", "-o", f"{folder}/model.fmpair", "--quiet"]
    assert run([*arguments, "--factors", "4", "--epochs", "3"]) == 0
    return folder


@pytest.fixture
def model(files):
    return f"{files}/model.fmpair"


@pytest.fixture
def fmpair(capsysbinary, monkeypatch):
    """Run a command line; gives code, out, err."""

    def call(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin))))
        code = run([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        return SimpleNamespace(code=code, out=out.decode(), err=err.decode())

    return call


@pytest.fixture
def no_figures(monkeypatch):
    """Reports have no figures, which take longer than all the rest; tests/report draws them."""
    for name, nothing in (("bars", ()), ("curves", ()), ("view_bars", None), ("tuning", None)):
        monkeypatch.setattr(figures, name, lambda *_, nothing=nothing: nothing)


@pytest.fixture
def terminal(monkeypatch):
    """Let standard output look like a terminal."""

    def pretend():
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)

    return pretend
