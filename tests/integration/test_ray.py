"""On a Ray cluster of two nodes everything gives what it gives here, though nodes are killed."""

import logging
import os
import re
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import polars as pl
import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'fmpair[ray]'")

import ray
from engine.problems import (
    l2_scale_of,
    parameters_of,
    problem_of,
    settings_of,
    triple_l2_of,
    with_histories,
    with_triples,
)
from engine.test_contract_of_engines import KINDS, MINIBATCHED, pairs_of
from experiment.tiny_run import FM, MEASURED, POPULARITY, SOURCE, TUNED
from ray.cluster_utils import Cluster

import fmpair
from fmpair import FMPair
from fmpair import cluster as connection
from fmpair.cli import run as main
from fmpair.config.experiment import Experiment, Output, Step, Tuning
from fmpair.data import public_sets
from fmpair.data.synthetic import make
from fmpair.engine import engine
from fmpair.engine.ray.exchange import Merging
from fmpair.engine.ray.ray_training import WorkerPool
from fmpair.errors import DataError, MachineError, OptionError
from fmpair.experiment.run import run
from fmpair.fitted.ranked_lists import recommend_to_folder
from fmpair.training.shards import fit_parts

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
NODE = {"num_cpus": 1, "object_store_memory": 100 << 20}
SOON = {  # a node that is gone is noticed within a second or two
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 300,
    "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 3,
}
RATE = 0.05


@pytest.fixture(scope="module")
def cluster():
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - else other tests come first
    made = Cluster(
        initialize_head=True,
        head_node_args={**NODE, "include_dashboard": False, "_system_config": SOON},
    )
    made.add_node(**NODE)
    ray.init(made.address, log_to_driver=False, logging_level=logging.CRITICAL)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def other(cluster):
    """The node that may be killed: it is there again for the next test."""
    if not cluster.worker_nodes:
        cluster.add_node(**NODE)
        cluster.wait_for_nodes()

    def kill():
        for node in list(cluster.worker_nodes):
            cluster.remove_node(node, allow_graceful=False)

    return kill


@pytest.fixture
def kept(cluster, spare, monkeypatch):
    """Processes that stay for the next test: to start them takes longer than most tests."""
    begun = WorkerPool.start

    def start(pool):
        if spare:
            pool.workers, spare[:] = list(spare), []
        else:
            begun(pool)

    def stop(pool):
        spare[:], pool.workers = pool.workers or spare, []

    monkeypatch.setattr(WorkerPool, "start", start)
    monkeypatch.setattr(WorkerPool, "stop", stop)


@pytest.fixture(scope="module")
def spare():
    return []


@pytest.fixture
def free(spare):
    """No process of an earlier test has a core."""
    for worker in spare:
        ray.kill(worker)
    spare.clear()


def bits(training):
    return sha256(b"".join(table.tobytes() for table in training.snapshot())).hexdigest()


def same_files(folder):
    """Whether a model that was learned here and one learned there are the same bytes."""
    return (folder / "here").read_bytes() == (folder / "there").read_bytes()


def learned(name, problem, settings, epochs=3):
    training = engine(name).begin(problem, parameters_of(problem), settings._replace(on="ray"))
    try:
        losses = [training.epoch(number, RATE) for number in range(1, epochs + 1)]
        return losses, bits(training)
    finally:
        training.close()


def assert_same(problem, settings, epochs=3):
    assert learned("ray", problem, settings, epochs) == learned("cpu", problem, settings, epochs)


# One kind of settings for every way in which state goes from worker to worker; losses do not.
@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("bpr", ""),
        ("bpr", "cua"),
        ("softmax", "cuas"),
        ("softmax by adagrad", "cuas"),
        ("adaptive, softmax", "cuas"),
        ("batch, corrected", ""),
        ("impressions, own", "s"),
        ("dropout, softmax", ""),
    ],
)
def test_the_same_bits_are_learned_as_on_threads(kept, kind, parts):
    problem = problem_of(parts, users=30, items=40, events=600, weights=True, known=True)
    assert_same(problem, settings_of(blocks=5, **KINDS[kind]))


@pytest.mark.parametrize("positives", ["bootstrap", "user"])
def test_events_are_visited_as_often_as_on_threads(kept, positives):
    problem = problem_of("", users=30, items=40, events=600)
    assert_same(problem, settings_of(blocks=4, positives=positives))


@pytest.mark.parametrize(
    ("kind", "shared", "since"), [("softmax", False, True), ("softmax by adagrad", True, False)]
)
def test_histories_are_learned_as_on_threads(kept, kind, shared, since):
    problem = problem_of("cua", users=30, items=40, events=400)
    problem = with_histories(problem, since=since, shared=shared)
    histories = len(problem.query_groups.field) - 9
    assert_same(problem, settings_of(blocks=4, histories=histories, **KINDS[kind]))


@pytest.mark.parametrize("positives", ["permutation", "bootstrap"])
def test_minibatches_are_learned_as_on_threads(kept, positives):
    problem = with_histories(problem_of("", users=30, items=40, events=600, weights=True))
    settings = settings_of(
        blocks=4, histories=4, positives=positives, **MINIBATCHED["all items, dropout"]
    )
    assert_same(problem, settings)


def test_order_three_is_learned_as_on_threads(kept):
    problem = with_triples(problem_of("cua", users=30, items=40, events=400, weights=True))
    assert_same(problem, settings_of(blocks=3, triples=triple_l2_of(problem), **KINDS["softmax"]))


def test_l2_of_every_rows_own_strength_is_that_on_threads(kept):
    problem = problem_of("cua", users=30, items=40, events=400, weights=True)
    assert_same(problem, settings_of(blocks=3, l2_scale=l2_scale_of(problem), **KINDS["softmax"]))


def test_given_pairs_are_learned_as_on_threads(kept):
    problem, found = problem_of("cua", users=30, items=40, events=400), []
    for name in ("cpu", "ray"):
        settings = settings_of(blocks=4, on="ray")
        training = engine(name).begin(problem, parameters_of(problem), settings)
        for number in (1, 2, 3):
            training.epoch(number, RATE)
            training.learn_pairs(pairs_of(problem), RATE)
        found.append(bits(training))
        training.close()
    assert found[0] == found[1]


def test_training_that_is_kept_goes_on_to_the_same_bits(kept):
    problem, settings = problem_of("", users=30, items=40, events=600), settings_of(blocks=4)
    settings, begin = settings._replace(on="ray", partition_every=2), engine("ray").begin
    training = begin(problem, parameters_of(problem), settings)
    for number in (1, 2, 3):
        training.epoch(number, RATE)
    first, state = training.snapshot(), training.state()
    training.close()
    training = begin(problem, first, settings)
    training.resume(state)
    training.epoch(4, RATE)
    found = bits(training)
    training.close()
    assert found == learned("cpu", problem, settings, epochs=4)[1]


@pytest.mark.faults
@pytest.mark.parametrize(("parts", "turn"), [("cua", 2), ("", 5)])
def test_a_node_that_is_killed_costs_no_more_than_a_round(
    free, other, monkeypatch, caplog, parts, turn
):
    problem = problem_of(parts, users=60, items=80, events=3000)
    settings = settings_of(blocks=16)
    here, made, asked = learned("cpu", problem, settings), Merging.round, []

    def killing(merging, number, keep):
        asked.append(number)
        if asked.count(turn) == 2 and number == turn and len(asked) < 30:  # of the second epoch
            other()
        return made(merging, number, keep)

    monkeypatch.setattr(Merging, "round", killing)
    assert learned("ray", problem, settings) == here
    assert "a process of the Ray cluster was lost" in caplog.text
    again = len(asked) - 3 * settings.blocks  # rounds that were done more than once
    assert 0 < again <= 2


def test_a_fit_on_a_cluster_gives_the_same_file(kept, tmp_path):
    data = make(users=200, items=60, events=4000, seed=1).data
    recipe = FMPair(factors=8, epochs=3, history=3, n_negatives=8, blocks=4)
    recipe.fit(data).save(tmp_path / "here")
    recipe.fit(data, on="ray").save(tmp_path / "there")
    assert same_files(tmp_path)


@pytest.fixture
def parts(tmp_path):
    """(the events, the folder of their Parquet parts)"""
    data = make(users=200, items=60, events=4000, seed=1).data
    events = data.frame().select("user", "item")
    for number in range(3):  # a user's events are in all of them
        events[number * 1400 : (number + 1) * 1400].write_parquet(tmp_path / f"{number}.parquet")
    return events, tmp_path


@pytest.mark.parametrize("loss", [pytest.param("bpr", marks=pytest.mark.thorough), "softmax"])
def test_parts_that_nobody_reads_in_full_give_the_same_file(cluster, free, parts, loss):
    events, folder = parts
    # blocks change before the last epoch; parts are too large for trials
    recipe = FMPair(factors=8, epochs=6, loss=loss, blocks=4, regularization=0.1)
    recipe.fit(events).save(folder / "here")
    fit_parts(recipe, folder).save(folder / "there")
    assert same_files(folder)


def test_a_model_of_parts_need_not_know_what_everyone_has(cluster, free, parts):
    events, folder = parts
    recipe = FMPair.fast(epochs=1, factors=8)
    model, whole = fit_parts(recipe, folder, seen=False), recipe.fit(events)
    assert len(model.seen.column) == 0
    there, here = (m.recommend("user-001", exclude_seen=False) for m in (model, whole))
    assert there.equals(here)


def test_parts_have_no_more_than_users_and_items(parts):
    with pytest.raises(OptionError, match="history is not supported with parts"):
        fit_parts(FMPair(history=5), parts[1])
    with pytest.raises(DataError, match="there is no Parquet file"):
        fit_parts(FMPair(), parts[1] / "nowhere")


@pytest.mark.realdata
@pytest.mark.thorough
@pytest.mark.parametrize("context", [True, False])
def test_a_public_set_gives_the_same_file(kept, tmp_path, context):
    data = public_sets.load("ml-100k")
    if not context:
        data = replace(data, context=(), columns=data.columns.drop(data.context))
    loss = "softmax" if context else "bpr"
    recipe = FMPair(factors=8, epochs=2, history=0, order=2, times=False, loss=loss)
    recipe.fit(data).save(tmp_path / "here")
    recipe.fit(data, on="ray").save(tmp_path / "there")
    assert same_files(tmp_path)


def experiment_in(folder, **changes):
    made = Experiment(
        "on a cluster",
        SOURCE,
        (POPULARITY, FM, replace(FM, name="more", options={"factors": 3, "epochs": 2})),
        Step("holdout", {"test": 0.2, "validation": 0.2}),
        seeds=(0, 1),
        output=Output(str(folder), models=True, refit=False),
    )
    return replace(made, **changes)


def figures(results):
    cells = results.cells.drop(MEASURED, strict=False)
    return cells.sort("cell").to_dicts(), results.values.sort(pl.all()).to_dicts()


@pytest.mark.faults
def test_an_experiment_survives_a_node_that_is_killed(cluster, free, other, tmp_path):
    lines = []

    def watch(line):
        lines.append(line)
        if len(lines) == 2:
            other()

    there = run(experiment_in(tmp_path / "there"), progress=watch, on="ray")
    here = run(experiment_in(tmp_path / "here"))
    assert figures(there) == figures(here)
    assert len([line for line in lines if " of 6: " in line]) == 6
    models = [sorted((tmp_path / place / "cells").glob("*.fmpair")) for place in ("there", "here")]
    assert [m.name for m in models[0]] == [m.name for m in models[1]]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(*models))


def test_a_run_is_resumed_on_a_cluster_and_back(cluster, free, tmp_path):
    first = experiment_in(tmp_path, models=(POPULARITY,))
    run(first)
    lines = []
    run(experiment_in(tmp_path, models=(POPULARITY, FM)), progress=lines.append, on="ray")
    assert [line.partition(":")[0] for line in lines] == ["3 of 4", "4 of 4"]
    lines.clear()
    run(experiment_in(tmp_path, models=(POPULARITY, FM)), progress=lines.append)
    assert lines == []


def test_trials_run_side_by_side_and_choose_the_same(cluster, free, tmp_path):
    own = {"models": (TUNED,), "seeds": (0,), "tune": Tuning(trials=4, parallel=2)}
    there = run(experiment_in(tmp_path / "there", **own), on="ray")
    here = run(experiment_in(tmp_path / "here", **own))
    columns = ["model", "fold", "trial", "options", "value"]
    assert there.trials.select(columns).equals(here.trials.select(columns))
    assert figures(there) == figures(here)


@pytest.fixture(scope="module")
def model():
    return FMPair.fast(epochs=1, factors=8).fit(make(users=300, items=60, events=4000, seed=1).data)


def lists(folder):
    return pl.concat(pl.read_parquet(path) for path in sorted(Path(folder).glob("part-*.parquet")))


@pytest.mark.faults
def test_lists_of_everyone_survive_a_node_that_is_killed(cluster, free, other, model, tmp_path):
    for part in recommend_to_folder(model, tmp_path / "lists", 5, on="ray", size=25):
        if part == 2:
            other()
    assert lists(tmp_path / "lists").equals(model.recommend(None, 5))


def test_lists_are_resumed_and_those_of_others_refused(cluster, free, model, tmp_path):
    made = recommend_to_folder(model, tmp_path / "lists", 5, on="ray", size=50)
    next(made)
    made.close()
    rest = list(recommend_to_folder(model, tmp_path / "lists", 5, size=50))
    assert 0 < len(rest) < 6
    assert lists(tmp_path / "lists").equals(model.recommend(None, 5))
    with pytest.raises(DataError, match="the lists of another model, or of other options"):
        list(recommend_to_folder(model, tmp_path / "lists", 6, size=50))


def test_a_machine_with_another_fmpair_is_named(cluster, monkeypatch):
    monkeypatch.setattr(fmpair, "__version__", "9.9")
    monkeypatch.setattr(connection, "_checked", set())
    with pytest.raises(OptionError, match=r"runs fmpair 0\..* this process fmpair 9\.9 on Python"):
        connection.connect("ray")


def test_another_version_of_ray_is_named(cluster):
    code = (
        "import ray; ray.__version__ = '0.0.1'; from fmpair.cluster import connect; "
        f"connect('ray://{cluster.address}')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    line = done.stderr.splitlines()[-1]
    assert "runs another Ray or Python than this process" in line
    assert "0.0.1" in line and ray.__version__ in line


def test_a_full_object_store_is_named(cluster, monkeypatch):
    def full(value):
        raise ray.exceptions.ObjectStoreFullError("The object store is full\nand so on")

    monkeypatch.setattr(ray, "put", full)
    problem = problem_of("", users=30, items=40, events=600)
    with pytest.raises(
        MachineError, match=r"object store .* is full: start Ray with a larger"
    ) as e:
        learned("ray", problem, settings_of(blocks=4))
    assert len(str(e.value).splitlines()) == 1


def test_the_commands_take_the_flag(cluster, free, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data = make(users=60, items=40, events=1000, seed=1).data
    data.frame().select("user", "item").write_csv("clicks.csv")
    options = ["--factors", "4", "--epochs", "2", "--quiet"]
    assert main(["fit", "clicks.csv", "-o", "here", *options]) == 0
    assert main(["fit", "clicks.csv", "-o", "there", *options, "--on", "ray"]) == 0
    assert same_files(tmp_path)
    assert main(["recommend", "there", "--all", "--on", "ray", "-o", "lists"]) == 0
    assert lists("lists").equals(fmpair.load("here").recommend(None))
    assert main(["recommend", "there", "--on", "ray"]) == 1
    assert "it requires --all and -o FOLDER" in capsys.readouterr().err


def test_the_code_of_the_page_on_scale_runs(cluster, free, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "scale.md").read_text("utf-8")
    found = re.findall(r"^```python no-run\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(found) == 3
    events = make(users=50, items=30, events=600, seed=1).data.frame().select("user", "item")
    events = events.with_columns(user=pl.col("user").replace("user-001", "ann"))
    exec("\n".join(found), {"events": events})
    assert len(lists("lists")) == 5 * events["user"].n_unique()


def test_a_cluster_that_is_not_there_is_named():
    with pytest.raises(OptionError, match=r"cannot reach a Ray cluster with on='ray://127"):
        connection._reach("ray://127.0.0.1:9", ("127.0.0.1", 9))


def test_another_cluster_than_the_one_at_hand_is_refused(cluster):
    with pytest.raises(
        OptionError, match=r"is already connected to the Ray cluster at .* ray.shutdown"
    ):
        connection.connect("ray://127.0.0.2:6379")
