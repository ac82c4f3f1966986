import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tiny_run import (
    FM,
    MEASURED,
    POPULARITY,
    STOPPING,
    Broken,
    Deadly,
    Interrupting,
    Threads,
    experiment,
    model,
    same,
)

from fmpair import FMPair, Popularity, load
from fmpair.config.experiment import Candidate, Output, Running, Source, Step, from_plain
from fmpair.errors import OptionError
from fmpair.evaluation import Protocol, evaluate
from fmpair.evaluation.protocol import preset
from fmpair.experiment.estimate import estimate
from fmpair.experiment.prepared import prepare
from fmpair.experiment.run import Stopped, run
from fmpair.models import VSKNN, MarkovChain
from fmpair.report.sections import sections

ALL = {"all": Protocol()}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Three models on two folds with two seeds, under two protocols."""
    protocols = {"all": Protocol(), "users": Protocol(unit="user", candidates="uniform", n=5)}
    return run(
        experiment(
            tmp_path_factory.mktemp("run"), POPULARITY, FM, STOPPING,
            protocols=protocols, metrics=("ndcg@10", "coverage@5"), seeds=(0, 1),
            views=("popularity", "activity", "warmth", "context:daytime"),
            run=Running(threads=1, curve=2),
        )
    )  # fmt: skip


def parts(asked, fold):
    """Events that train, that validate, both together, and that test."""
    bench = prepare(asked.data, asked.filters, asked.split)
    train, validation, test = bench.splits[fold].parts(bench.data)
    rows = [bench.splits[fold].train, bench.splits[fold].validation]
    return train, validation, bench.data.take(np.sort(np.concatenate(rows))), test


def value(results, **keys):
    return results.values.filter(**keys)["value"].item()


def test_a_value_is_what_fitting_and_judging_by_hand_gives(results):
    _, _, known, test = parts(results.experiment, 1)
    fitted = FMPair(factors=2, epochs=2, seed=1).fit(known)
    by_hand = evaluate(fitted, known, test, Protocol(), ["ndcg@10"])
    found = value(results, model="FM", fold=1, seed=1, protocol="all", metric="ndcg@10")
    assert found == by_hand.means["ndcg@10"]
    units = results.units["all"].filter(model="FM", fold=1, seed=1)
    assert units["ndcg@10"].equals(by_hand.units["ndcg@10"])


def test_early_stopping_holds_the_validation_part_out(results):
    train, validation, known, test = parts(results.experiment, 0)
    kept = {name: replace(part, context=(), columns=part.columns.drop(part.context))
            for name, part in (("train", train), ("validation", validation))}  # fmt: skip
    fitted = FMPair(factors=2, epochs=6).fit(
        kept["train"], validation=kept["validation"], metric="ndcg@10", patience=2
    )
    by_hand = evaluate(fitted, known, test, Protocol(), ["ndcg@10"]).means["ndcg@10"]
    assert value(results, model="stopping", fold=0, seed=0, protocol="all", metric="ndcg@10") == (
        by_hand
    )


def test_a_model_may_learn_from_train_alone_and_be_shown_what_came_next(tmp_path):
    chain = Candidate("both", "markov-chain")
    asked = experiment(
        tmp_path, chain, replace(chain, name="shown", learns="train"),
        split=Step("leave_last_out", {"validation": 1}),
        protocols={"next": preset("next-item")},
    )  # fmt: skip
    found = run(asked)
    train, validation, known, test = parts(asked, 0)
    by_hand = {
        "both": MarkovChain().fit(known),
        "shown": MarkovChain().fit(train).extended(validation),
    }
    for name, fitted in by_hand.items():
        units = evaluate(fitted, known, test, preset("next-item"), ["ndcg@10"]).units
        assert found.units["next"].filter(model=name)["ndcg@10"].equals(units["ndcg@10"])
    unaware = evaluate(MarkovChain().fit(train), known, test, preset("next-item"), ["ndcg@10"])
    shown = found.units["next"].filter(model="shown")["ndcg@10"]
    assert not shown.equals(unaware.units["ndcg@10"])


def test_new_sessions_are_judged_by_their_events_so_far(tmp_path):
    asked = experiment(
        tmp_path, Candidate("sessions", "v-sknn"),
        split=Step("by_session", {"test": 0.3, "validation": 0.2}),
        protocols={"sessions": preset("sessions")},
    )  # fmt: skip
    found = run(asked)
    _, _, known, test = parts(asked, 0)
    units = evaluate(VSKNN().fit(known), known, test, "sessions", ["ndcg@10"]).units
    assert len(units) and found.units["sessions"]["ndcg@10"].equals(units["ndcg@10"])


def test_a_metric_without_meaning_under_a_protocol_is_left_out(results):
    names = results.values.group_by("protocol", maintain_order=True).agg(
        pl.col("metric").unique(maintain_order=True)
    )
    assert names.rows() == [("all", ["ndcg@10", "coverage@5"]), ("users", ["ndcg@10[uni5]"])]


def test_views_cut_every_unit_once(results):
    assert results.views["view"].unique().sort().to_list() == [
        "activity", "context:daytime", "popularity", "warmth",
    ]  # fmt: skip
    units = len(results.units["all"].filter(model="FM", fold=0, seed=0))
    sizes = results.views.filter(model="FM", fold=0, seed=0, protocol="all", metric="ndcg@10")
    assert sizes.group_by("view").agg(pl.col("units").sum())["units"].to_list() == [units] * 4


def test_units_of_several_items_are_not_cut_by_item(results):
    found = results.views.filter(protocol="users")
    assert sorted(found["view"].unique()) == ["activity", "context:daytime", "warmth"]
    assert found.filter(view="warmth")["group"].unique().to_list() == ["warm user"]


def test_a_curve_has_a_loss_every_epoch_and_says_where_it_was_judged(results):
    curve = results.curves.filter(model="FM", fold=0, seed=0)
    assert curve.filter(pl.col("metric").is_null())["epoch"].to_list() == [1, 2]
    judged = curve.filter(metric="ndcg@10")
    assert judged.select("epoch", "part").rows() == [(2, "test")]
    keys = {"model": "FM", "fold": 0, "seed": 0, "protocol": "all", "metric": "ndcg@10"}
    assert judged["value"].item() == value(results, **keys)
    assert results.curves.filter(model="stopping")["part"].unique().to_list() == ["validation"]
    assert results.curves.filter(model="popularity").is_empty()


def test_times_and_memory_are_measured(results):
    assert (results.cells["train_seconds"] > 0).all() and (results.cells["peak_mb"] > 10).all()
    assert results.cells.filter(model="FM")["epochs"].to_list() == [2] * 4
    assert results.cells.filter(model="popularity")["epoch_seconds"].null_count() == 4


def test_the_manifest_tells_what_the_run_was_made_of(results):
    told = results.manifest
    assert told["seeds"] == [0, 1] and len(told["split"]["folds"]) == len(told["leakage"]) == 2
    assert told["data"]["statistics"]["events"] == 500
    assert {"python", "fmpair", "numpy", "polars", "numba"} <= set(told["versions"])
    assert told["machine"]["cores"] and told["began"] <= told["ended"] and told["peak_mb"] > 10


def test_the_manifest_names_the_files_but_not_their_owner(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    asked = experiment(tmp_path / "run", POPULARITY)
    events = prepare(asked.data, (), asked.split).data.frame()
    events.write_csv(tmp_path / "events.csv")
    source = replace(asked.data, generate=None, path=str(tmp_path / "events.csv"))
    told = run(replace(asked, data=source)).manifest
    assert list(told["data"]["files"]) == ["events.csv"]
    assert told["experiment"]["data"]["path"] == "~/events.csv"
    assert str(tmp_path) not in str(told["experiment"])


def test_a_model_that_fails_is_a_row_and_the_rest_goes_on(tmp_path):
    said = []
    found = run(experiment(tmp_path, model(Broken), POPULARITY), progress=said.append)
    assert found.cells["error"].to_list() == ["this one always fails"] * 2 + [None, None]
    assert found.values["model"].unique().to_list() == ["popularity"]
    assert "failed: this one always fails" in said[0]


def test_a_column_nobody_has_is_named(tmp_path):
    asked = experiment(tmp_path, replace(FM, context=("wether",)))
    assert "unknown context column 'wether'" in run(asked).cells["error"][0]


def test_columns_a_model_may_not_use_do_not_matter(tmp_path):
    lean = replace(FM, name="lean", context=(), user_fields=(), item_fields=())
    asked = experiment(tmp_path, lean, protocols=ALL)
    found = run(asked)
    _, _, known, test = parts(asked, 0)
    bare = replace(known, context=(), columns=known.columns.drop(known.context),
                   user_table=pl.DataFrame(), item_table=pl.DataFrame())  # fmt: skip
    fitted = FMPair(factors=2, epochs=2).fit(bare)
    by_hand = evaluate(fitted, known, test, Protocol(), ["ndcg@10"]).means["ndcg@10"]
    assert value(found, fold=0, metric="ndcg@10") == by_hand


def test_two_labels_of_one_model_are_computed_once(tmp_path):
    said = []
    asked = experiment(tmp_path, POPULARITY, replace(POPULARITY, name="the same"))
    found = run(asked, progress=said.append)
    assert len(said) == 2 and len(found.cells) == 4
    assert found.cells["cell"][:2].equals(found.cells["cell"][2:])


def test_the_seed_and_the_threads_reach_a_recipe_that_has_them(tmp_path):
    told = run(experiment(tmp_path, model(Threads), seeds=(5,))).manifest["provenance"]
    assert told == {"tiny_run:Threads": {"threads": 1, "seed": 5, "alive": True}}


@pytest.mark.slow
def test_processes_side_by_side_give_the_same_and_a_dead_one_is_a_failed_row(tmp_path):
    models = (POPULARITY, model(Deadly), FM)
    side = experiment(tmp_path / "side", *models, run=Running(workers=2))
    found = run(side)
    died = found.cells.filter(model="other")["error"]
    assert all("its process ended" in error for error in died)
    alone = run(experiment(tmp_path / "alone", POPULARITY, FM))
    assert found.values.equals(alone.values)
    for label, units in alone.units.items():
        assert found.units[label].equals(units)


def test_two_runs_write_the_same_bytes_but_for_what_is_measured(tmp_path):
    files = []
    for name, workers in (("one", 1), ("two", 2)):
        run(experiment(tmp_path / name, POPULARITY, FM, seeds=(0, 1), run=Running(workers=workers)))
        folder = next((tmp_path / name).rglob("plan.json")).parent
        tables = [p for p in folder.rglob("*") if p.suffix in (".parquet", ".fmpair")]
        files.append({str(p.relative_to(folder)): p.read_bytes() for p in tables})
        for path in [folder / "plan.json", *folder.glob("cells/*.json")]:
            record = {
                key: value
                for key, value in json.loads(path.read_bytes()).items()
                if key not in (*MEASURED, "checksum", "curve")
            }
            files[-1][str(path.relative_to(folder))] = json.dumps(record).encode()
    assert list(files[0]) and files[0] == files[1]


def test_an_interrupt_says_how_far_the_run_is(tmp_path):
    asked = experiment(tmp_path, POPULARITY, model(Interrupting), FM)
    with pytest.raises(Stopped, match="stopped: 2 of 6 cells are done; the same command resumes"):
        run(asked)
    healed = experiment(tmp_path, POPULARITY, FM)
    assert same(run(healed), run(experiment(tmp_path / "other", POPULARITY, FM)))


def test_the_winner_is_fitted_to_all_events(tmp_path):
    asked = experiment(tmp_path, POPULARITY, FM, output=Output(str(tmp_path)))
    asked = replace(asked, split=Step("holdout", {"test": 0.3}))
    found = run(asked)
    means = {name: value(found, model=name, metric="ndcg@10") for name in ("popularity", "FM")}
    best = max(means, key=means.get)
    data = prepare(asked.data, asked.filters, asked.split).data
    recipe = {"popularity": Popularity(), "FM": FMPair(factors=2, epochs=2)}[best]
    user = data.users.ids[0]
    by_hand = recipe.fit(data).recommend(user, 5)
    assert load(tmp_path / "model.fmpair").recommend(user, 5).equals(by_hand)


def test_a_winner_that_stopped_early_is_refitted_as_long(tmp_path):
    asked = experiment(tmp_path, STOPPING, output=Output(str(tmp_path)))
    epochs = run(asked).cells["epochs"].to_list()
    data = prepare(asked.data, asked.filters, asked.split).data
    data = replace(data, context=(), columns=data.columns.drop(data.context))
    for epoch in FMPair(factors=2, epochs=6).train(data):
        if epoch.number == round(sum(epochs) / 2):
            by_hand = epoch.recommender()
            break
    user = data.users.ids[0]
    assert load(tmp_path / "model.fmpair").recommend(user).equals(by_hand.recommend(user))


def test_where_every_model_fails_there_is_no_winner(tmp_path):
    run(experiment(tmp_path, model(Broken), output=Output(str(tmp_path))))
    assert not (tmp_path / "model.fmpair").exists()


def test_a_model_that_cannot_stop_early_says_so(tmp_path):
    asked = experiment(tmp_path, replace(POPULARITY, stop=3))
    assert run(asked).cells["error"][0] == "popularity does not support early stopping: remove stop"


def test_code_from_outside_is_not_run_for_an_experiment_out_of_a_folder(tmp_path):
    mine = experiment(tmp_path / "a", model(Threads))
    assert len(run(mine).values)
    kept = from_plain(json.loads((tmp_path / "a" / "experiment.json").read_text()))
    for carry_out in (run, estimate):
        with pytest.raises(OptionError, match=r"code from outside fmpair.*allow_code=True"):
            carry_out(kept)
    assert len(run(replace(kept, allow_code=True)).values)


def test_a_filter_by_training_means_goes_through_a_whole_run(tmp_path):
    rng = np.random.default_rng(0)
    rated = pl.DataFrame(
        {
            "user": rng.integers(0, 15, 400),
            "item": rng.integers(0, 25, 400),
            "rating": rng.integers(1, 6, 400),
        }
    )
    rated.write_csv(tmp_path / "rated.csv")
    asked = experiment(
        tmp_path / "run", POPULARITY, FM, data=Source(path=str(tmp_path / "rated.csv")),
        filters=(Step("above_mean"),), split=Step("folds", {"count": 2}), protocols=ALL,
        output=Output(str(tmp_path / "run")),
    )  # fmt: skip
    told = []
    done = run(asked, progress=told.append)
    assert done.cells["error"].null_count() == len(done.cells) == 4
    assert told[0].endswith("of 400 test events removed by above_mean, after the split")
    bench = prepare(asked.data, asked.filters, asked.split)
    for fold, said in enumerate(done.manifest["split"]["folds"]):
        train, _, test = bench.splits[fold].parts(bench.data)
        mean = train.frame().group_by("user").agg(pl.col("rating").mean().alias("mean"))
        kept = [
            part.frame().join(mean, on="user").filter(pl.col("rating") > pl.col("mean"))
            for part in (train, test)
        ]
        assert [said["train"], said["test"]] == [len(part) for part in kept]
    [data] = [part for part in sections(done, []) if part.title == "Data"]
    assert data.text == (f"{told[0]}.",) and data.facts["filters"] == "above_mean"
    all_means = pl.col("rating") > pl.col("rating").mean().over("user")
    liked = rated.filter(all_means).select("user", "item").unique()
    seen = load(tmp_path / "run" / "model.fmpair").seen
    assert len(seen.column) == len(liked), "the winner is fitted to what is above the mean of all"
