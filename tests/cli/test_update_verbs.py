"""`update` and `fold-in`: a model file and new events make another model file."""

import numpy as np
import polars as pl
import pytest

from fmpair import load


@pytest.fixture
def new(tmp_path, files):
    """Events of a new user, with a new item, under the names of the old ones, and a column more."""
    row = pl.read_csv(files / "events.csv").head(1)
    items = ["book-000", "book-001", "film-000", "brand-new"]
    frame = pl.concat([row] * 4).with_columns(
        user=pl.lit("late"), item=pl.Series(items), session_id=pl.Series(["s1"] * 4)
    )
    frame.write_csv(tmp_path / "new.csv")
    return tmp_path / "new.csv"


def test_an_update_writes_the_model_that_the_library_makes(fmpair, model, new, tmp_path):
    target = tmp_path / "next.fmpair"
    result = fmpair("update", model, new, "-o", target, "--epochs", 2)
    assert result.code == 0 and result.out == ""
    assert "with 1 new users, 1 new items" in result.err.splitlines()[-1]
    own = load(model).update(pl.read_csv(new), epochs=2)
    np.testing.assert_array_equal(load(target).item_vectors, own.item_vectors)
    assert "late" in load(target).user_ids and "brand-new" in load(target).item_ids


def test_an_update_learns_earlier_events_of_a_file_again(fmpair, model, new, files, tmp_path):
    target, earlier = tmp_path / "next.fmpair", files / "events.csv"
    result = fmpair("update", model, new, "-o", target, "--epochs", 2, "--replay", earlier)
    assert result.code == 0, result.err
    own = load(model).update(pl.read_csv(new), epochs=2, replay=pl.read_csv(earlier))
    np.testing.assert_array_equal(load(target).item_vectors, own.item_vectors)
    result = fmpair("update", model, new, "-o", target, "--replay", 2)
    assert result.code == 1 and "pass the events themselves as --replay" in result.err


def test_a_fold_in_changes_no_item_and_counts_what_it_passes_over(fmpair, model, new, tmp_path):
    target = tmp_path / "next.fmpair"
    result = fmpair("fold-in", model, new, "-o", target, "--epochs", 2)
    assert result.code == 0
    assert "note: 1 of 4 events have unknown items and are ignored" in result.err
    assert "--unknown error refuses them" in result.err
    before, after = load(model), load(target)
    np.testing.assert_array_equal(before.item_vectors, after.item_vectors)
    assert set(after.user_ids) - set(before.user_ids) == {"late"}


def test_a_quiet_update_says_nothing(fmpair, model, new, tmp_path):
    result = fmpair("update", model, new, "-o", tmp_path / "next.fmpair", "-q", "--epochs", 1)
    assert (result.code, result.out, result.err) == (0, "", "")


@pytest.mark.parametrize(
    ("verb", "flags", "words"),
    [
        ("update", ["-o", "-"], "use -o FILE"),
        ("update", [], "missing option '--output' / '-o'"),
        ("update", ["-o", "no/folder/x"], "there is no folder no/folder; make it first"),
        ("update", ["-o", "x.fmpair", "--epochs", 0], "--epochs must be a whole number of at le"),
        ("fold-in", ["-o", "x.fmpair", "--unknown", "error"], "unknown item 'brand-new'"),
        ("fold-in", ["-o", "x.fmpair", "--unknown", "x"], "--unknown must be one of ignore, error"),
    ],
)
def test_a_mistake_is_one_clear_line(fmpair, model, new, monkeypatch, tmp_path, verb, flags, words):
    monkeypatch.chdir(tmp_path)
    result = fmpair(verb, model, new, *flags)
    assert result.code in (1, 2)
    assert words in result.err.splitlines()[-1]
    assert not list(tmp_path.glob("*.fmpair"))


def test_an_update_may_learn_elsewhere(fmpair, model, new, tmp_path):
    pytest.importorskip("torch")
    target = tmp_path / "next.fmpair"
    assert fmpair("update", model, new, "-o", target, "--epochs", 2, "--device", "torch").code == 0
    assert load(target).recipe.device == "torch"


def test_an_update_keeps_the_weights_of_kinds_unless_flags_say_otherwise(fmpair, files, tmp_path):
    log, model, new = tmp_path / "log.csv", tmp_path / "m.fmpair", tmp_path / "n.fmpair"
    events = pl.read_csv(files / "events.csv").select("user", "item")
    kinds = ["buy" if n % 4 else "view" for n in range(len(events))]
    events.with_columns(did=pl.Series(kinds)).write_csv(log)
    weights = ["--event-weight", "view=1", "--event-weight", "buy=5"]
    fitted = fmpair("fit", log, "-o", model, "--event-type", "did", *weights, "--epochs", 1,
                    "--factors", 2, "--quiet")  # fmt: skip
    assert fitted.code == 0, fitted.err

    def vectors(*flags):
        result = fmpair("update", model, log, "-o", new, "--epochs", 1, *flags)
        assert result.code == 0, result.err
        return load(new).item_vectors

    kept = vectors()
    np.testing.assert_array_equal(kept, vectors("--event-type", "did", *weights))
    alike = ["--event-weight", "view=1", "--event-weight", "buy=1"]
    assert not np.array_equal(kept, vectors(*alike))
    assert not np.array_equal(kept, vectors("--ignore", "did"))


def test_an_update_leaves_out_the_refunds_that_the_fit_left_out(fmpair, tmp_path):
    log, model, new = tmp_path / "log.csv", tmp_path / "m.fmpair", tmp_path / "n.fmpair"
    users = [f"u{n % 7}" for n in range(60)]
    did = ["refund" if n % 10 == 3 else "buy" for n in range(60)]
    items = [f"i{n % 9}" for n in range(60)]
    pl.DataFrame({"user": users, "item": items, "did": did}).write_csv(log)
    quick = ["--epochs", 1, "--factors", 2, "--fm-order", 2, "--quiet"]

    def update_after_fit(*flags):
        fitted = fmpair("fit", log, "-o", model, "--event-type", "did", *quick, *flags)
        assert fitted.code == 0, fitted.err
        return fmpair("update", model, log, "-o", new).err

    said = update_after_fit()
    assert "left out 6 of 60 events that are refunds (6 by 'did')" in said
    assert "learning from 54 events" in said
    said = update_after_fit("--refunds", "keep")
    assert "refunds" not in said and "learning from 60 events" in said
