"""The command line as a process: help, exit codes, interrupts, pipes."""

import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from fmpair import __version__
from fmpair.cli.application import VERBS

FMPAIR = [sys.executable, "-m", "fmpair"]


def process(*arguments, **options):
    return subprocess.run(
        [*FMPAIR, *map(str, arguments)], capture_output=True, text=True, **options
    )


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from fmpair.cli import run; run(['--help'])\n"
        "sys.exit(str({'numba', 'polars', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == "set()"


def test_a_paragraph_of_help_is_broken_by_the_terminal_alone(fmpair, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    text = fmpair("items", "push", "--help").out
    assert "An empty cell leaves a value as it is; a column `removed`" in text


def test_help_lists_every_verb(fmpair):
    result = fmpair("--help")
    assert result.code == 0
    assert [verb for verb in VERBS if f" {verb} " not in result.out] == []
    assert fmpair().out == result.out


@pytest.mark.parametrize("verb", [*VERBS, "data list", "data describe", "data make"])
def test_every_verb_has_help(fmpair, verb):
    result = fmpair(*verb.split(), "--help")
    assert result.code == 0 and f"Usage: fmpair {verb}" in result.out


def test_the_version_is_printed(fmpair):
    assert fmpair("--version").out == f"fmpair {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "x", "--factor-s", "3"], "unknown option '--factor-s'. Did you mean '--factors'?"),
        (["recommend", "m", "--usr", "a"], "Did you mean '--user'?"),
        (["recomend"], "Did you mean 'recommend'?"),
        (["fit"], "missing argument 'EVENTS'; see fmpair fit --help"),
        (["fit", "x", "--factors", "many"], "invalid value for '--factors'"),
        (["data"], "missing command; see fmpair data --help"),
    ],
)
def test_a_usage_mistake_is_one_line_and_exit_code_2(fmpair, arguments, words):
    result = fmpair(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ") and result.err.count("\n") == 1
    assert words in result.err


def test_a_failing_process_has_an_exit_code_and_no_traceback(tmp_path):
    done = process("fit", tmp_path / "none.csv")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"error: there is no file {tmp_path / 'none.csv'}\n"


@pytest.mark.slow
def test_an_interrupt_leaves_nothing_half_written(files, tmp_path):
    target = tmp_path / "m.fmpair"
    target.write_text("the old one")
    options = ["--factors", "4", "--epochs", "1000000"]
    arguments = ["fit", str(files / "events.csv"), "-o", str(target), *options]
    running = subprocess.Popen([*FMPAIR, *arguments], stderr=subprocess.PIPE, text=True)
    while "epoch 3" not in running.stderr.readline():
        time.sleep(0)
    running.send_signal(signal.SIGINT)
    last = running.stderr.read().splitlines()[-1]
    assert (running.wait(), last) == (130, "interrupted")
    assert [path.name for path in tmp_path.iterdir()] == ["m.fmpair"]
    assert target.read_text() == "the old one"
    running.stderr.close()


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_error(model):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*FMPAIR, "recommend", model], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_memory_that_runs_out_is_one_line(fmpair, files, monkeypatch):
    def short(*_, **__):
        raise MemoryError("Unable to allocate 3 TiB")

    monkeypatch.setattr(sys.modules["fmpair.data.read"], "read_contents", short)
    result = fmpair("data", "describe", f"{files}/events.csv")
    line = "error: not enough memory. Unable to allocate 3 TiB\n"
    assert (result.code, result.err) == (1, line)


@pytest.mark.skipif(os.name == "nt", reason="the shell's words for it")
@pytest.mark.parametrize(
    ("redirected", "code", "out", "err"),
    [
        (">&-", 1, "", "error: standard output is closed\n"),
        ("-o lists.csv >&-", 0, "", "wrote 2 rows to lists.csv\n"),
        ("-o lists.csv 2>&-", 0, "", ""),
        ("--users-file - <&-", 1, "", "error: standard input is empty\n"),
    ],
)
def test_a_closed_stream_costs_one_line_at_most(files, tmp_path, redirected, code, out, err):
    user = "" if "users-file" in redirected else "--user user-001"
    line = f"{shlex.join(FMPAIR)} recommend {files}/model.fmpair {user} -n 2 {redirected}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (code, out, err)
