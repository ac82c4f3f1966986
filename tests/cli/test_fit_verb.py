import json

import pytest

from fmpair import FMPair, load
from fmpair.training import checkpoint, tuning
from fmpair.training.loop import _Progress


def assert_refused(result, *words, code=1):
    """One line on standard error that starts with `error:`, nothing on standard output."""
    assert result.code == code
    assert result.out == ""
    assert result.err.startswith("error: ") and result.err.count("\n") == 1, result.err
    for word in words:
        assert word in result.err


QUICK = ("--factors", "2", "--epochs", "1")


def test_fit_writes_a_model_and_says_so_on_standard_error(fmpair, files, tmp_path):
    result = fmpair("fit", files / "events.csv", "-o", tmp_path / "m.fmpair", *QUICK)
    assert (result.code, result.out) == (0, "")
    assert "read 600 events" in result.err and "epoch 1 of 1: loss" in result.err
    assert load(tmp_path / "m.fmpair").space.context == ["daytime", "place"]


def test_low_ratings_that_count_as_positive_are_said_to(fmpair, tmp_path):
    rows = [f"u{n % 9},{n * n % 31},{1 + n % 5}" for n in range(80)]
    (tmp_path / "a.csv").write_text("\n".join(["user,item,rating", *rows]))
    result = fmpair("fit", tmp_path / "a.csv", "-o", tmp_path / "m", *QUICK)
    assert "80 events (" in result.err and "below their user's mean and count" in result.err
    again = fmpair("fit", tmp_path / "a.csv", "-o", tmp_path / "m", *QUICK, "--ignore", "rating")
    assert again.code == 0 and "below their user's mean" not in again.err


def test_rows_are_said_to_be_in_order_of_time_by_a_flag(fmpair, tmp_path):
    (tmp_path / "a.csv").write_text("user,item,timestamp\na,1,5\nb,2,6\na,2,7\nb,3,8\n")
    result = fmpair("fit", tmp_path / "a.csv", "-o", tmp_path / "m", *QUICK, "--order", "rows")
    assert_refused(result, "--order rows is for data without times", "--ignore")
    given = ["--order", "rows", "--ignore", "timestamp", "-q"]
    assert fmpair("fit", tmp_path / "a.csv", "-o", tmp_path / "m", *QUICK, *given).code == 0


@pytest.mark.parametrize(
    ("given", "history"),
    [("3", 3), ("auto", "auto"), ("last=2,fade=0.5", {"last": 2, "fade": 0.5})],
)
def test_a_history_is_given_as_a_number_or_by_its_options(given, history, fmpair, files, tmp_path):
    target = tmp_path / "m"
    flags = ("-q", *QUICK, "--history", given)
    result = fmpair("fit", files / "events.csv", "-o", target, *flags)
    assert result.code == 0, result.err
    assert load(target).recipe.history == history


def test_parts_of_times_are_fields_and_asked_for_at_a_moment(fmpair, tmp_path):
    rows = [f"u{n % 9},{n * n % 31},2024-05-{1 + n % 28:02} {n % 24:02}:00" for n in range(80)]
    (tmp_path / "a.csv").write_text("\n".join(["user,item,timestamp", *rows]))
    flags = ("--field", "timestamp=time", "--field", "timestamp.parts=hour,weekend", "-q")
    result = fmpair("fit", tmp_path / "a.csv", "-o", tmp_path / "m", *QUICK, *flags)
    assert result.code == 0, result.err
    names = [encoder.name for encoder in load(tmp_path / "m").space.query.encoders]
    assert names[:2] == ["timestamp.hour", "timestamp.weekend"]
    asked = ("recommend", tmp_path / "m", "--user", "u1", "-n", "1", "--time")
    assert fmpair(*asked, "2024-06-01 20:15").code == 0
    assert_refused(fmpair(*asked, "tonight"), "'tonight' is not a time: give text such as")


def test_quiet_says_nothing(fmpair, files, tmp_path):
    result = fmpair("fit", files / "events.csv", "-o", tmp_path / "m", "--quiet", *QUICK)
    assert (result.code, result.out, result.err) == (0, "", "")


def test_every_option_of_fm_pair_is_a_flag(fmpair, files, tmp_path):
    flags = {
        "--learning-rate": 0.1, "--regularization": 0.02, "--init-std": 0.2,
        "--positives": "bootstrap", "--weights": "none", "--seed": 7, "--blocks": 2,
        "--threads": 1, "--negative-sampler": "uniform",
    }  # fmt: skip
    given = [str(part) for pair in flags.items() for part in pair]
    switches = ["--no-item-bias", "--normalize"]
    target = tmp_path / "m.fmpair"
    result = fmpair("fit", files / "events.csv", "-o", target, "-q", *QUICK, *given, *switches)
    assert result.code == 0, result.err
    expected = FMPair(
        factors=2, epochs=1, learning_rate=0.1, regularization=0.02, init_std=0.2, seed=7,
        positives="bootstrap", weights="none", item_bias=False, normalize=True, blocks=2,
    )  # fmt: skip
    assert load(target).recipe.options() == expected.options()


def test_regularization_and_fields_are_given_by_name(fmpair, files, tmp_path):
    result = fmpair(
        "fit", files / "events.csv", "--users", files / "users.csv", "-o", tmp_path / "m", "-q",
        "--regularization", "user=0.1", "--regularization", "context=0.2",
        "--field", "age=binned", "--field", "age.bins=3", "--field", "interests=multi", *QUICK,
    )  # fmt: skip
    assert result.code == 0, result.err
    recipe = load(tmp_path / "m").recipe
    assert recipe.regularization == {"user": 0.1, "context": 0.2}
    assert (recipe.fields["age"]["kind"], recipe.fields["age"]["bins"]) == ("binned", 3)


@pytest.mark.parametrize(
    ("flags", "context"),
    [
        (["--context", "place"], ["place"]),
        (["--ignore", "place"], ["daytime"]),
        (["--no-context"], []),
    ],
)
def test_the_context_columns_can_be_chosen(fmpair, files, tmp_path, flags, context):
    result = fmpair("fit", files / "events.csv", "-o", tmp_path / "m", "-q", *flags, *QUICK)
    assert result.code == 0, result.err
    assert load(tmp_path / "m").space.context == context


def test_events_come_from_standard_input_as_csv_or_json_lines(fmpair, files, tmp_path):
    csv = (files / "events.csv").read_bytes()
    assert fmpair("fit", "-", "-o", tmp_path / "a", "-q", *QUICK, stdin=csv).code == 0
    lines = [{"user": u, "item": i} for u in range(4) for i in range(u, u + 3)]
    text = "\n".join(map(json.dumps, lines)).encode()
    assert fmpair("fit", "-", "-o", tmp_path / "b", "-q", *QUICK, stdin=text).code == 0
    assert load(tmp_path / "b").user_ids.tolist() == [0, 1, 2, 3]


def test_columns_and_separator_can_be_named(fmpair, tmp_path):
    (tmp_path / "e.txt").write_text("1\ta\n1\tb\n2\tb\n2\tc\n")
    names = ["--no-header", "--column", "user", "--column", "item"]
    result = fmpair(
        "fit", tmp_path / "e.txt", "--separator", "\\t", *names, "-o", tmp_path / "m", "-q", *QUICK
    )
    assert result.code == 0, result.err
    assert load(tmp_path / "m").item_ids.tolist() == ["a", "b", "c"]


def test_what_was_shown_is_given_as_a_file(fmpair, tmp_path):
    (tmp_path / "clicks.csv").write_text("user,item\n1,a\n1,b\n2,b\n2,c\n")
    (tmp_path / "shown.csv").write_text("user,item\n1,c\n")
    flags = [
        "--impressions",
        tmp_path / "shown.csv",
        "--impression-share",
        "0.5",
        "-o",
        tmp_path / "m",
    ]
    result = fmpair("fit", tmp_path / "clicks.csv", *flags, *QUICK)
    assert result.code == 0, result.err
    assert "read 4 events, 2 users, 3 items, 1 impressions" in result.err
    assert load(tmp_path / "m").recipe.impression_share == 0.5


def test_validation_keeps_the_best_epoch(fmpair, files, tmp_path):
    flags = ["--validation", "0.2", "--metric", "recall@5", "--patience", "1"]
    result = fmpair("fit", files / "events.csv", "-o", tmp_path / "m", "-q", *flags, *QUICK)
    assert result.code == 0, result.err


def test_an_interrupted_fit_goes_on_from_its_checkpoint(fmpair, files, tmp_path, monkeypatch):
    kept, model, whole = (tmp_path / name for name in ("kept", "m.fmpair", "whole.fmpair"))
    command = ["fit", files / "events.csv", "--history", 0, *QUICK, "--epochs", 4]
    assert fmpair(*command, "-o", whole, "-q").code == 0
    run, stops = _Progress.run, [3]

    def interrupted(self, number):
        if number in stops:
            raise KeyboardInterrupt
        return run(self, number)

    monkeypatch.setattr(checkpoint, "EVERY", 0.0)
    monkeypatch.setattr(_Progress, "run", interrupted)
    result = fmpair(*command, "-o", model, "--checkpoint", kept)
    assert (result.code, result.err.splitlines()[-1]) == (
        130,
        f"interrupted: epoch 2 of 4 was saved to {kept}; run the same fit again to continue",
    )
    assert sorted(tmp_path.iterdir()) == [kept, whole]
    stops.clear()
    result = fmpair(*command, "-o", model, "--checkpoint", kept)
    assert f"continuing from {kept}\nepoch 3 of 4" in result.err
    assert model.read_bytes() == whole.read_bytes()
    assert sorted(tmp_path.iterdir()) == [model, whole]


def test_a_checkpoint_is_no_model_file(fmpair, files, tmp_path):
    target = tmp_path / "m.fmpair"
    result = fmpair("fit", files / "events.csv", "-o", target, "--checkpoint", target)
    assert (result.code, result.err) == (
        1,
        "error: --checkpoint and --output must be different files\n",
    )


def test_a_missing_file_is_named_with_the_nearest(fmpair, files, tmp_path):
    result = fmpair("fit", files / "event.csv", "-o", tmp_path / "m")
    assert_refused(result, "there is no file", "Did you mean 'events.csv'?")


def test_an_empty_file_is_refused(fmpair, tmp_path):
    (tmp_path / "e.csv").write_text("")
    assert_refused(fmpair("fit", tmp_path / "e.csv", "-o", tmp_path / "m"), "is empty")


def test_a_wrong_separator_is_named_with_the_right_one(fmpair, tmp_path):
    (tmp_path / "e.csv").write_text("user;item\na;x\nb;y\n")
    result = fmpair("fit", tmp_path / "e.csv", "--separator", ",", "-o", tmp_path / "m")
    assert_refused(result, "the separator may be ';'")


def test_an_unknown_column_is_named_with_the_nearest(fmpair, files, tmp_path):
    result = fmpair("fit", files / "events.csv", "--context", "daytme", "-o", tmp_path / "m")
    assert_refused(result, "Did you mean 'daytime'?")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--factors", "0"], "factors must be a whole number of at least 1, not 0"),
        (["--learning-rate", "nan"], "--learning-rate must be a number above 0, not nan"),
        (["--regularization", "x"], "regularization must be a number"),
        (["--regularization", "usr=1"], "Did you mean 'user'?"),
        (["--weights", "sqrt"], "weights must be one of log, linear, none"),
        (["--validation", "2"], "validation must be a share between 0 and 1"),
        (["--validation", "0.1", "--metric", "ncdg@10"], "Did you mean 'ndcg'?"),
        (["--field", "age"], "--field takes name=value, not 'age'"),
        (["--context", "place", "--no-context"], "cannot be combined"),
        (["--impression-share", "0.5"], "the data has no impressions"),
    ],
)
def test_an_impossible_option_is_refused(fmpair, files, tmp_path, flags, words):
    result = fmpair("fit", files / "events.csv", "-o", tmp_path / "m", "-q", *flags)
    assert_refused(result, words)
    assert not list(tmp_path.iterdir())


def test_an_unwritable_target_is_refused_before_training(fmpair, files, tmp_path):
    for target in (tmp_path / "none" / "m", tmp_path):
        assert_refused(fmpair("fit", files / "events.csv", "-o", target), "cannot write")
    assert_refused(fmpair("fit", files / "events.csv", "-o", "-"), "standard output")


def test_help_puts_the_options_that_most_people_need_in_front(fmpair):
    text = fmpair("fit", "--help").out
    panels = ["Model ", "Model: negatives", "Model: regularisation", "Model: engine"]
    places = [text.index(panel) for panel in panels]
    assert places == sorted(places)
    assert places[0] < text.index("--factors") < places[1] < text.index("--n-negatives")


# Tuning.

TUNING = ("--factors", "2", "--epochs", "8", "--loss", "bpr", "--no-context", "--threads", "1")


def test_tuning_writes_the_model_its_trials_and_an_experiment_file(fmpair, files, tmp_path):
    target = tmp_path / "m.fmpair"
    result = fmpair("fit", files / "events.csv", "-o", target, "--trials", "3", *TUNING)
    assert result.code == 0, result.err
    assert "trial 1 (as given), stage 1 of 3: ndcg@10" in result.err and "best so far" in result.err
    assert f"{target}.yaml is for fmpair run" in result.err
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "m.fmpair", "m.fmpair.trials.jsonl", "m.fmpair.yaml"
    ]  # fmt: skip
    recipe = load(target).recipe
    assert (recipe.factors, recipe.epochs, recipe.loss) == (2, 8, "bpr")
    first = target.read_bytes()
    assert fmpair("fit", files / "events.csv", "-o", target, "--trials", "3", *TUNING).code == 0
    assert target.read_bytes() == first
    assert "tuned" in fmpair("validate", f"{target}.yaml").out
    given = ("run", f"{target}.yaml", "--folder", tmp_path / "run", "--quiet")
    assert fmpair(*given).code == 0
    assert load(tmp_path / "run" / "model.fmpair").recipe.options() == recipe.options()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--tune", "5 parsecs"), "--tune must be a time such as 90s, 5m or 2h, not '5 parsecs'"),
        (("--tune", "5m", "--trials", "3"), "give either --tune 5m, a time, or --trials 40"),
        (("--trials", "0"), "--trials must be"),
    ],
)
def test_a_wrong_budget_is_refused_before_the_events_are_read(flags, words, fmpair, tmp_path):
    assert_refused(fmpair("fit", "nowhere.csv", "-o", tmp_path / "m", *flags), words)


def test_too_few_users_to_tune_are_refused_and_nothing_is_written(fmpair, tmp_path):
    (tmp_path / "a.csv").write_text("user,item\na,1\na,2\nb,1\nb,3\n")
    result = fmpair("fit", tmp_path / "a.csv", "-o", tmp_path / "m", "--tune", "5s", "-q")
    assert_refused(result, "tuning needs at least 20 users")
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_ctrl_c_while_tuning_fits_the_best_so_far(fmpair, files, tmp_path, monkeypatch):
    fitted, calls = tuning._fitted, []

    def interrupted(*given):
        calls.append(given)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return fitted(*given)

    monkeypatch.setattr(tuning, "_fitted", interrupted)
    given = ("fit", files / "events.csv", "-o", tmp_path / "m", "--trials", "3", *TUNING)
    result = fmpair(*given)
    assert result.code == 0 and len(calls) == 4
    assert "stopped: fitting the best so far; the same command continues" in result.err
    assert load(tmp_path / "m").recipe.epochs == 8
    assert fmpair(*given).code == 0 and len(calls) > 4, "it continues where it stopped"
