"""FMPair.tune: what is searched, held out and chosen; kills, interrupts and mistakes."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, FMPair
from fmpair.config import read
from fmpair.errors import DataError, OptionError, TrainingError
from fmpair.features.history_fields import history_field
from fmpair.models.fm_pair import fm_pair
from fmpair.testing import shop_log, two_tastes
from fmpair.training import trials, tuning
from fmpair.training.epochs import MAX_EVENTS
from fmpair.training.search import canonical
from fmpair.training.trials import without_auto
from fmpair.training.tuning import DECIDED, held_out, plan_of
from fmpair.training.visits import Visits

FEW = {"factors": 4, "epochs": 8, "threads": 1, "loss": "bpr"}


@pytest.fixture(autouse=True, scope="module")
def small_trials():
    """Trials have as few factors as the fits of other tests: each number is kernels to compile."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr("fmpair.training.small_fits.FACTORS", 8)
        yield


def recipe(**options):
    return FMPair(**{**FEW, **options})


@pytest.fixture(scope="module")
def shop():
    frame = shop_log(users=60, items=40, events=1500)
    return Dataset.from_frame(frame.select("event_time", "event_type", "user_id", "product_id"))


@pytest.fixture(scope="module")
def tuned(shop):
    return recipe().tune(shop, trials=8)


def without_times(frame):
    return frame.drop("seconds")


def test_all_that_matters_is_searched(shop):
    described = Dataset.from_frame(shop_log(users=60, items=40, events=1500))
    names = {"history", "dropout", "regularization.user", "regularization.item", "factors", "loss",
             "event_weights"}  # fmt: skip
    assert set(plan_of(FMPair(), shop).space.ranges) == names
    assert set(plan_of(FMPair(), described).space.ranges) == {*names, "order"}
    weighted = Dataset.from_frame(
        {"user": [1, 1, 2, 2], "item": [1, 2, 1, 3], "weight": [1.0, 3.0, 2.0, 5.0]}
    )
    assert "weights" in plan_of(FMPair(), weighted).space.ranges


def test_the_search_starts_from_what_the_recipe_does(shop):
    plan = plan_of(FMPair(), shop)
    start = plan.space.start
    task = FMPair().train(shop).task
    assert start["regularization.user"] == task.settings.user
    assert start["factors"] == 128 and start["history"] == task.options.history
    assert plan.options(dict(start)) == {name: getattr(plan.recipe, name) for name in DECIDED}


def test_options_that_the_recipe_sets_are_kept(shop, tuned):
    searched = plan_of(FMPair(history=3, dropout=0.3, regularization=0.1), shop).space.ranges
    assert not {"history", "dropout", "regularization.user"} & set(searched)
    assert (tuned.recipe.factors, tuned.recipe.epochs, tuned.recipe.loss) == (4, 8, "bpr")


def test_order_two_is_searched_where_trials_chose_order_three(shop, monkeypatch):
    decided = {"order": 3, "factors": 24, "factors3": 8}
    monkeypatch.setattr(
        fm_pair, "resolve_auto", lambda given, data: replace(without_auto(given), **decided)
    )
    plan = plan_of(FMPair(), shop)
    assert plan.space.ranges["order"].values == (2, 3)
    assert plan.options(plan.space.start)["factors3"] == 8
    assert plan.options({**plan.space.start, "order": 2})["factors3"] is None


def test_another_loss_has_its_own_regularisation(shop):
    plan = plan_of(FMPair(), shop)
    setting = {**plan.space.start, "loss": "warp", "regularization.user": 0.5}
    assert plan.options(setting, every=True)["regularization"] is None
    same = {**plan.space.start, "regularization.user": 0.5}
    item = plan.space.start["regularization.item"]
    assert plan.options(same)["regularization"] == {"user": 0.5, "item": item}


def test_a_history_has_its_own_regularisation(shop):
    plan = plan_of(FMPair(), shop)
    found = plan.recipe.regularization
    assert found == {"user": plan.space.start["regularization.user"], "item": found["item"]}
    setting = {**plan.space.start, "history": 3}
    assert plan.options(setting)["regularization"] is None
    more = {**setting, "regularization.user": 0.5}
    assert plan.options(more)["regularization"] == {"user": 0.5}


def test_the_regularisation_is_chosen_by_trials_once(shop, monkeypatch):
    chosen = []
    run = trials._with_l2
    monkeypatch.setattr(trials, "_with_l2", lambda *given: chosen.append(1) or run(*given))
    plan = plan_of(FMPair(factors=8, epochs=2), shop)
    for setting in (plan.space.start, {**plan.space.start, "regularization.user": 0.5}):
        recipe = replace(plan.recipe, **plan.options(setting))
        assert recipe.regularization["item"] == plan.space.start["regularization.item"]
        recipe.train(shop).close()
    assert len(chosen) == 1


def test_lower_rungs_have_fewer_epochs_and_no_longer_vectors(shop):
    plan = plan_of(FMPair(), shop)
    setting = {**plan.space.start, "factors": 256}
    fits = [plan.options_on_rung(setting, rung) for rung in range(3)]
    assert [fit.get("epochs", 25) for fit in fits] == [6, 12, 25]
    assert [fit["factors"] for fit in fits] == [64, 256, 256]


def test_lower_rungs_take_longer_steps_unless_the_recipe_has_long_ones(shop):
    for given, expected in ((0.1, [0.2, 0.2, None]), (0.05, [0.1, 0.1, None]), (0.3, [None] * 3)):
        plan = plan_of(FMPair(learning_rate=given), shop)
        fits = [plan.options_on_rung(plan.space.start, rung) for rung in range(3)]
        assert [fit.get("learning_rate") for fit in fits] == expected


def test_the_result_has_the_recipe_and_its_trials(shop, tuned):
    assert isinstance(tuned.recipe, FMPair) and tuned.complete and tuned.held_out == "latest"
    assert isinstance(tuned.recipe.history, int | dict) and tuned.recipe.dropout is not None
    trials = tuned.trials
    assert trials["trial"].to_list() == list(range(1, 9)) and trials["chosen"].sum() == 1
    assert trials["first"].to_list() == [True] + [False] * 7
    chosen = trials.filter("chosen").row(0, named=True)
    assert chosen["epochs"] == 8 and chosen["gain"] >= 0
    assert tuned.fit(shop).recipe == tuned.recipe


def test_the_same_trials_are_made_again(shop, tuned):
    again = recipe(threads=2).tune(shop, trials=8)
    assert without_times(again.trials).equals(without_times(tuned.trials))
    assert again.recipe == FMPair(**{**tuned.recipe.options(), "threads": 2})


def chains(users=28, length=10, items=40):
    """Each item is followed by one other; too few users for history='auto' to tell."""
    draws = np.random.default_rng(0)
    follower, rows = draws.permutation(items), []
    for user in range(users):
        item = draws.integers(items)
        for moment in range(length):
            rows.append((user, int(item), moment))
            item = follower[item] if draws.random() < 0.9 else draws.integers(items)
    frame = pl.DataFrame(rows, schema=["user", "item", "timestamp"], orient="row")
    return Dataset.from_frame(frame, timestamp="timestamp")


def test_a_setting_that_is_needed_is_found():
    own = FMPair(factors=8, epochs=30, threads=1, loss="bpr", dropout=0.1, regularization=0.005)
    found = own.tune(chains(length=20), trials=5)
    first, chosen = (found.trials.filter(row).row(0, named=True) for row in ("first", "chosen"))
    assert first["history"] == "0" and found.recipe.history
    assert chosen["gain"] > chosen["standard_error"] > 0
    assert str(found).startswith(f"5 trials: ndcg@10 {chosen['value']:.4f} on events held out")


def test_the_latest_event_of_each_user_is_held_out_and_all_others_are_learned(shop):
    judge = held_out(shop, 0, 1)
    assert len(judge.train) == len(shop) - len(shop.users)
    times = shop.columns["timestamp"].to_numpy()
    last = {user: times[shop.user == user].max() for user in range(len(shop.users))}
    held = judge.held_out
    assert all(
        time == last[user] for user, time in zip(held.user, held.columns["timestamp"].to_numpy())
    )


def test_of_many_users_some_are_judged_and_the_others_are_learned_in_full():
    users = MAX_EVENTS + 500
    user = np.repeat(np.arange(users), 2)
    data = Dataset.from_frame({"user": user, "item": np.arange(len(user)) % 50})
    judge = held_out(data, 0, 1)
    assert len(judge.train) == len(data) - MAX_EVENTS and len(judge.events) == MAX_EVENTS


def test_without_times_a_random_event_is_held_out_and_no_history_is_tried(caplog):
    with caplog.at_level("INFO", "fmpair.progress"):
        found = recipe().tune(two_tastes(), trials=2)
    assert "no times, so a random event of each user is held out" in caplog.text
    assert found.held_out == "random" and "history" not in found.trials.columns


def test_too_few_users_are_refused():
    data = two_tastes(users=10)
    with pytest.raises(DataError, match=r"at least 20 users .* there are 10"):
        recipe().tune(data, trials=2)


def test_a_wrong_budget_is_refused(shop):
    with pytest.raises(OptionError, match="budget must be a time such as 90s, 5m or 2h"):
        recipe().tune(shop, budget="5 parsecs")
    with pytest.raises(OptionError, match="give either"):
        recipe().tune(shop)
    with pytest.raises(OptionError, match="trials"):
        recipe().tune(shop, n_trials=3)


def test_a_time_ends_the_search(shop):
    found = recipe().tune(shop, budget="2s")
    assert len(found.trials) >= 1 and found.trials["seconds"].sum() < 60


def test_a_fit_that_takes_longer_than_there_is_time_is_given_up(shop, monkeypatch):
    train = FMPair.train

    def slow(self, data):
        for epoch in train(self, data):
            if self.regularization is not None:
                now[0] += 50
            yield epoch

    now, given = [0.0], plan_of(recipe(), shop)
    monkeypatch.setattr(tuning.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(FMPair, "train", slow)
    plan = tuning.Plan(recipe(history=0), given.space)
    setting = {**plan.space.start, "regularization.user": 0.5}
    judge = held_out(shop, 0, 1)
    assert tuning._fitted(plan, setting, tuning.Job(1), judge, 60.0) is None
    assert tuning._fitted(plan, setting, tuning.Job(1), judge, 500.0).values is not None
    assert tuning._fitted(plan, setting, tuning.Job(0), judge, 60.0).values is not None


def test_a_setting_that_fails_is_a_row_and_a_recipe_that_fails_an_error(shop, monkeypatch):
    found = recipe(dropout=0.3, temperature=None).tune(shop, trials=2)
    assert found.trials["error"].null_count() == 2
    train = FMPair.train

    def failing(self, data):
        if self.regularization is not None:
            raise TrainingError("training diverged")
        return train(self, data)

    monkeypatch.setattr(FMPair, "train", failing)
    found = recipe().tune(shop, trials=8)
    assert "training diverged" in found.trials["error"].to_list()
    assert found.recipe.regularization is None or not found.trials.filter("chosen")["error"][0]
    with pytest.raises(TrainingError):
        recipe(learning_rate=1e9).tune(shop, trials=2)


def test_a_line_says_what_a_trial_changes(shop):
    lines = []
    recipe().tune(shop, trials=3, progress=lines.append)
    assert lines[0].startswith("trial 1 (as given), stage 1 of 3: ndcg@10 0.")
    assert any(line.startswith("trial 2 (history ") for line in lines)


def test_the_best_so_far_is_that_of_the_stage_it_names(shop):
    lines, scores = [], {}
    recipe().tune(shop, trials=8, progress=lines.append)
    for line in lines:
        text = r"trial (\d+) .*, stage (\d) of 3(?:, second seed)?: ndcg@10 ([\d.]+); (.*)"
        trial, stage, score, rest = re.fullmatch(text, line).groups()
        scores.setdefault((stage, trial), score)
        stage, score, trial, first = re.fullmatch(
            r"best so far at stage (\d): ([\d.]+) \(trial (\d+)\), first ([\d.]+)", rest
        ).groups()
        assert (scores[stage, trial], scores[stage, "1"]) == (score, first)
    assert len({stage for stage, _ in scores}) == 3


def test_one_trial_is_one_trial(shop):
    found = recipe().tune(shop, trials=1)
    assert str(found) == "1 trial: none is clearly better than the given options"


def test_histories_longer_than_every_users_events_are_tried_once():
    def histories(events):
        user = np.repeat(np.arange(30), events)
        frame = pl.DataFrame({"user": user, "item": (user + np.arange(len(user))) % 90})
        frame = frame.with_columns(timestamp=np.arange(len(user)))
        plan = plan_of(recipe(times=False), Dataset.from_frame(frame, timestamp="timestamp"))
        values = plan.space.ranges["history"].values
        return {canonical(value) for value in values}

    assert canonical({"last": 50, "fade": 1.0}) in histories(60)
    assert canonical({"last": 50, "fade": 1.0}) not in histories(15)
    assert canonical({"last": 20, "fade": 1.0}) in histories(15)


def test_histories_that_are_tried_keep_the_gain_of_earlier_items(shop):
    start = {"last": 20, "fade": 2.0, "repeat": 0.7, "regularization": 0.07}
    tried = [history_field(history) for history in tuning._histories(shop, start)]
    assert {field.repeat for field in tried if field} == {0.35, 0.7, 1.4}
    scaled = [field for field in tried if field and field.repeat != 0.7]
    assert {(field.last, field.fade, field.regularization) for field in scaled} == {(20, 2.0, 0.07)}
    assert None in tried and {field.last for field in tried if field} == {1, 3, 20, 50}


def test_ctrl_c_ends_the_search_with_the_best_so_far(shop, tuned, tmp_path):
    lines = []

    def interrupt(line):
        lines.append(line)
        if len(lines) == 6:
            raise KeyboardInterrupt

    found = recipe().tune(shop, trials=8, file=tmp_path / "trials", progress=interrupt)
    assert not found.complete and 1 <= len(found.trials) < 8
    assert "best so far" in lines[-1] and "trial" in lines[-1]
    whole = recipe().tune(shop, trials=8, file=tmp_path / "trials")
    assert without_times(whole.trials).equals(without_times(tuned.trials))


def test_ctrl_c_before_the_first_result_is_an_interrupt(shop, monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "_fitted", interrupted)
    with pytest.raises(KeyboardInterrupt):
        recipe().tune(shop, trials=8)


SCRIPT = """
import os, sys
from fmpair import FMPair, Dataset
from fmpair.models.fm_pair import fm_pair
from fmpair.testing import shop_log
frame = shop_log(users=60, items=40, events=1500)
data = Dataset.from_frame(frame.select("event_time", "event_type", "user_id", "product_id"))
seen = []
def kill(line):
    seen.append(line)
    if len(seen) == 5:
        os.kill(os.getpid(), 9)
own = FMPair(factors=4, epochs=8, threads=1, loss="bpr")
own.tune(data, trials=8, file=sys.argv[1], progress=kill)
"""


def test_a_killed_search_continues_to_the_same_result(shop, tuned, tmp_path):
    file = tmp_path / "trials.jsonl"
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(file)], capture_output=True)
    assert done.returncode == -9, done.stderr
    before = file.read_bytes()
    assert before.count(b"\n") == 6, "a line for the search, and one for each fit"
    file.write_bytes(before + b'{"key": "cut')  # as a kill while writing leaves it
    fits = []
    found = recipe().tune(shop, trials=8, file=file, progress=fits.append)
    assert without_times(found.trials).equals(without_times(tuned.trials))
    assert file.read_bytes().startswith(before)


def test_stored_fits_are_not_repeated_and_a_larger_budget_continues(shop, tmp_path, monkeypatch):
    file = tmp_path / "trials.jsonl"
    recipe().tune(shop, trials=4, file=file)
    stored = file.read_bytes()
    monkeypatch.setattr(tuning, "_fitted", None)
    recipe().tune(shop, trials=4, file=file)
    assert file.read_bytes() == stored
    monkeypatch.undo()
    more = recipe().tune(shop, trials=5, file=file)
    assert file.read_bytes().startswith(stored) and len(more.trials) == 5


def test_the_trials_of_another_search_and_other_files_are_refused(shop, tmp_path):
    file = tmp_path / "trials.jsonl"
    recipe().tune(shop, trials=2, file=file)
    with pytest.raises(DataError, match=r"trials of another recipe \(factors was 4, now 3\)"):
        recipe(factors=3).tune(shop, trials=2, file=file)
    with pytest.raises(DataError, match="trials of other data"):
        recipe().tune(shop.take(np.arange(len(shop) - 1)), trials=2, file=file)
    for content in (b"a file of mine", b'{"kind": "other"}\n', file.read_bytes() + b"[]\n"):
        file.write_bytes(content)
        with pytest.raises(DataError, match="not a file of trials, or damaged: remove it"):
            recipe().tune(shop, trials=2, file=file)
        assert file.read_bytes() == content


def test_weights_of_event_types_are_part_of_the_result(shop):
    weights = {"view": 1.0, "cart": 5.0, "buy": 25.0}
    found = tuning.Tuned(recipe(), pl.DataFrame(), weights)
    assert dict(found.fit(shop).space.event_weights.weights) == weights


def test_the_winner_is_written_as_an_experiment_file(shop, tuned, tmp_path):
    (tmp_path / "clicks.csv").write_text("user,item\n1,2\n")
    tuned.write(tmp_path / "best.yaml", tmp_path / "clicks.csv")
    experiment = read(tmp_path / "best.yaml")
    other, model = experiment.models
    assert (other.kind, model.kind, model.name) == ("popularity", "fm-pair", "tuned")
    assert experiment.split.kind == "leave_last_out" and not experiment.protocols
    assert FMPair(**model.options).options() == tuned.recipe.options()
    assert experiment.data.path == str(tmp_path / "clicks.csv")
    assert experiment.data.options == (
        {"event_weights": tuned.event_weights} if tuned.event_weights else {}
    )


def test_the_winner_of_held_out_visits_is_run_on_whole_sessions(shop, tuned, tmp_path):
    (tmp_path / "clicks.csv").write_text("user,item\n1,2\n")
    replace(tuned, held_out="visits").write(tmp_path / "best.yaml", tmp_path / "clicks.csv")
    experiment = read(tmp_path / "best.yaml")
    assert experiment.split.kind == "by_session" and list(experiment.protocols) == ["sessions"]


def test_every_line_of_the_file_is_readable(shop, tmp_path):
    file = tmp_path / "trials.jsonl"
    recipe().tune(shop, trials=2, file=file)
    head, *fits = [json.loads(line) for line in file.read_text().splitlines()]
    assert head["search"]["options"]["factors"] == 4
    assert all(0 <= fit["mean"] <= 1 and fit["seconds"] > 0 for fit in fits)


def test_sessions_are_held_out_whole():
    rng, start = np.random.default_rng(0), datetime(2024, 1, 1)
    rows = [
        (f"s{u}", int(first + t) % 30, start + timedelta(hours=6 * u, minutes=t))
        for u, first in enumerate(rng.integers(0, 30, 300))
        for t in range(4)
    ]
    data = Dataset.from_frame(pl.DataFrame(rows, ["user", "item", "timestamp"], orient="row"))
    judge = held_out(data, 0, 1)
    assert isinstance(judge, Visits)
    assert judge.count == 3 * (300 - len(np.unique(judge.train.user)))
    assert judge.before[:3] == [judge.before[2][:1], judge.before[2][:2], judge.before[2]]
