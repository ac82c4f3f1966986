"""`fmpair compile`: what it leaves behind is all that a later process needs."""

import os
import subprocess
import sys

import pytest

from fmpair import FMPair, jit, kernel_cache
from fmpair.cli import setup_commands
from fmpair.data.synthetic import make
from fmpair.training.defaults import MANY_EVENTS, factors_of

USE = """
import sys
from dataclasses import replace
import numpy as np
from fmpair import FMPair, Protocol, evaluate, kernel_cache
from fmpair.data.synthetic import make
from fmpair.fitted import large_catalogue
from fmpair.serve.live_models import warm_up

kernel_cache.keep = lambda name, content: sys.exit(f"compiled {name}")
data = make(users=60, items=40, events=1500).data
for loss in ("softmax", "bpr"):
    model = FMPair(factors=8, epochs=2, loss=loss, history=0).fit(data, validation=0.1)
    model.recommend(n=3)
FMPair(factors=8, epochs=2, history=3).fit(data).recommend(n=3)
for protocol in (Protocol(), Protocol(candidates="uniform", n=10)):
    evaluate(model, data, data.take(np.arange(0, 1500, 5)), protocol)
large_catalogue.LARGE = 1
index = large_catalogue.build_index(model)
warm_up(model)
again = replace(model, item_side=None)
large_catalogue.use_index(again, index)
warm_up(again)
"""


def kernels(folder):
    return sorted(path.name for path in folder.rglob("*.kernel"))


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A place beside the package for this test alone."""
    monkeypatch.setattr(kernel_cache, "BESIDE", tmp_path / "beside")
    return tmp_path / "beside"


@pytest.mark.slow
def test_a_folder_is_filled_with_what_fit_recommend_and_evaluate_need(fmpair, tmp_path):
    folder = tmp_path / "kernels"
    result = fmpair("compile", "--into", folder, "--factors", 8)
    assert (result.code, result.out) == (0, ""), result.err
    said = result.err.splitlines()
    assert said[0] == "1 of 19: 8 factors, loss softmax"
    assert said[-1].startswith(f"{len(kernels(folder))} kernels in {folder}/kernels/")
    empty = {"XDG_CACHE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    environment = {**os.environ, **empty, "FMPAIR_CACHE": str(folder)}
    command = [sys.executable, "-c", USE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


SERVE = """
import sys
from fmpair import kernel_cache, load
from fmpair.fitted import large_catalogue
from fmpair.serve.live_models import warm_up

kernel_cache.keep = lambda name, content: sys.exit(f"compiled {name}")
warm_up(load(sys.argv[1]))
large_catalogue.LARGE = 1
warm_up(load(sys.argv[1]))
"""


def test_for_serving_it_compiles_what_a_service_needs_and_nothing_of_fit(tmp_path):
    folder, path = tmp_path / "kernels", tmp_path / "model.fmpair"
    data = make(users=60, items=40, events=1500).data
    FMPair(factors=4, epochs=1, history=3, order=2, times=False).fit(data).save(path)
    # In a process that has not fitted: all that a process has used is put there.
    command = [sys.executable, "-m", "fmpair", "compile", "--into", str(folder), "--serving"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "1 of 2: recommend" in done.stderr
    assert kernels(folder) and not [name for name in kernels(folder) if name.startswith("engine")]
    empty = {"XDG_CACHE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    environment = {**os.environ, **empty, "FMPAIR_CACHE": str(folder)}
    command = [sys.executable, "-c", SERVE, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_by_default_compiled_code_lies_beside_the_package(fmpair, beside):
    result = fmpair("compile", "--serving")
    assert result.code == 0 and kernels(beside) and str(beside) in result.err
    count = len(kernels(beside))
    doctor = fmpair("doctor").out
    assert f"{count} kernels in" in " ".join(doctor.split())


def test_where_the_package_is_read_only_it_lies_among_the_user_s_caches(
    fmpair, beside, tmp_path, monkeypatch
):
    beside.write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FMPAIR_CACHE", raising=False)
    assert fmpair("compile", "--serving").code == 0
    assert kernels(tmp_path / "home" / "fmpair")


def test_what_other_versions_left_goes_only_when_asked(fmpair, tmp_path):
    other = tmp_path / "kernels" / "0123456789abcdef"
    other.mkdir(parents=True)
    arguments = ("compile", "--into", tmp_path, "--serving")
    assert fmpair(*arguments).code == 0 and other.exists()
    result = fmpair(*arguments, "--clean")
    assert "removed the kernels of 1 other version" in result.err and not other.exists()
    assert kernels(tmp_path)


def test_a_folder_that_cannot_be_written_is_one_line(fmpair, tmp_path):
    (tmp_path / "file").write_text("")
    result = fmpair("compile", "--into", tmp_path / "file")
    assert result.code == 1
    assert (
        result.err == f"error: --into {tmp_path / 'file'} is not writable: choose another folder\n"
    )


@pytest.mark.parametrize("factors", ["0", "-3"])
def test_no_factors_are_a_mistake(fmpair, tmp_path, factors):
    result = fmpair("compile", "--into", tmp_path, "--factors", factors)
    assert (result.code, result.err.count("\n")) == (2, 1) and "--factors" in result.err


def test_without_a_compiler_that_is_said_in_one_line(fmpair, tmp_path, monkeypatch):
    monkeypatch.setattr(jit, "MISSING", "numba cannot be imported (no such thing)")
    result = fmpair("compile", "--into", tmp_path)
    assert result.code == 1 and result.err.count("\n") == 1
    assert "which does not work here: numba cannot be imported" in result.err
    result = fmpair("doctor")
    assert result.code == 1 and "no such thing" in " ".join(result.out.split())


def test_by_default_kernels_have_the_factors_that_fits_on_a_cpu_have(fmpair, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(setup_commands, "_fits", lambda number: asked.append(number) or [])
    fmpair("compile", "--into", str(tmp_path / "kernels"))
    assert asked == [32, 128, 256]
    chosen = {factors_of(FMPair(), events) for events in (1_000, MANY_EVENTS)}
    assert chosen < set(asked)  # the other one is that of trials


def test_kernels_of_a_gpu_are_compiled_by_small_fits(fmpair):
    pytest.importorskip("torch")
    result = fmpair("compile", "--device", "torch", "--factors", 4)
    assert result.code == 0
    assert "3 of 3: 4 factors, order three" in result.err
    assert "compiled for torch in" in result.err
    assert "--into is for the cpu" in fmpair("compile", "--device", "torch", "--into", "x").err
