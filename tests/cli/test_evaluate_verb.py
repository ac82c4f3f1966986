import csv
import io
from dataclasses import fields
from pathlib import Path

import polars as pl
import pytest

from fmpair import load, read
from fmpair.cli.evaluate_commands import PROTOCOL, RENAMED
from fmpair.data.splits import holdout
from fmpair.evaluation import Protocol, evaluate
from fmpair.experiment.folder import WINNER, digest, write_json
from fmpair.models import MarkovChain


@pytest.fixture(scope="module")
def parts(files):
    """A folder with train.csv, test.csv and lists.csv."""
    data = read(files / "events.csv")
    train, _, test = holdout(data, test=0.3).parts(data)
    for name, part in (("train", train), ("test", test)):
        part.frame().write_csv(files / f"{name}.csv")
    model = load(files / "model.fmpair")
    model.recommend(None, 5, exclude_seen=False).write_csv(files / "lists.csv")
    return files


@pytest.fixture
def judge(fmpair, parts):
    def call(what, *flags, events=True):
        given = ["--train", parts / "train.csv", "--test", parts / "test.csv"] if events else []
        return fmpair("evaluate", parts / what, *given, *flags)

    return call


def rows(result):
    assert result.code == 0, result.err
    return list(csv.DictReader(io.StringIO(result.out)))


def test_every_option_of_a_protocol_is_a_flag():
    assert [RENAMED.get(f.name, f.name) for f in PROTOCOL] == [f.name for f in fields(Protocol)]


def test_a_model_is_judged_as_the_library_does(judge, parts):
    result = judge("model.fmpair", "--seen", "none", "--metric", "mrr@5", "--metric", "auc")
    train, test = read(parts / "train.csv"), read(parts / "test.csv")
    model = load(parts / "model.fmpair")
    found = evaluate(model, train, test, Protocol(seen="none"), ["mrr@5", "auc"])
    assert {row["metric"]: float(row["value"]) for row in rows(result)} == pytest.approx(
        found.means, rel=1e-5
    )
    for row in rows(result):
        assert float(row["low"]) < float(row["value"]) < float(row["high"])
        assert row["protocol"] == "interaction/all/seen=none" and row["corrected"] == ""
    assert "protocol interaction/all/seen=none: 180 units, 100.0% with a list" in result.err


def test_a_sample_is_labelled_and_comes_with_a_corrected_estimate(judge):
    result = judge("model.fmpair", "--protocol", "one-plus-random", "--n", "4", "--seed", "3")
    found = rows(result)
    assert [row["metric"] for row in found] == ["recall@10[uni4]", "ndcg@10[uni4]"]
    assert all(row["corrected"] for row in found)
    assert found[0]["protocol"] == "interaction/uni4/seen=train+test/seed3"
    assert "corrected: likelihood of true ranks" in result.err


def test_lists_are_judged_by_the_same_protocols(judge, parts):
    flags = ["--protocol", "full-user", "--seen", "none", "--metric", "hit@5"]
    table = rows(judge("lists.csv", *flags))
    frame = pl.read_csv(parts / "lists.csv")
    lines = [f"{user} Q0 {item} {rank} {score} ours" for user, item, score, rank in
             frame.select("user", "item", "score", "rank").rows()]  # fmt: skip
    (parts / "lists.run").write_text("\n".join(lines))
    assert rows(judge("lists.run", *flags)) == table
    few = frame.filter(pl.col("user") != frame["user"][0])
    few.write_csv(parts / "few.csv")
    assert float(rows(judge("few.csv", *flags))[0]["coverage"]) < 1 == float(table[0]["coverage"])


def test_results_are_cut_up_and_written_unit_by_unit(judge, tmp_path):
    views = ["--by", "popularity", "--by", "context:daytime"]
    found = rows(judge("model.fmpair", *views, "--per-unit", tmp_path / "units.parquet"))
    assert {row["view"] for row in found} == {"popularity", "context:daytime"}
    assert sum(int(row["units"]) for row in found) == 2 * 180
    units = pl.read_parquet(tmp_path / "units.parquet")
    assert units.columns == ["unit", "row", "user", "item", "recall@10", "ndcg@10"]
    assert len(units) == 180


def test_candidates_and_domains_narrow_what_is_ranked(judge, parts, tmp_path):
    (tmp_path / "items.csv").write_text("item\nbook-001\nbook-002\n")
    found = rows(judge("model.fmpair", "--candidates-file", tmp_path / "items.csv"))
    assert found[0]["metric"].startswith("recall@10[file-")
    found = rows(judge("model.fmpair", "--in-domain", "music", "-o", "-"))
    assert found[0]["protocol"].endswith("domain=music")
    assert int(found[0]["units"]) < 180


def test_the_overlap_of_two_files_needs_no_events(judge, parts):
    found = rows(judge("lists.csv", "--overlap", parts / "lists.csv", events=False))
    assert {float(row["jaccard"]) for row in found} == {1}


@pytest.mark.parametrize(
    ("what", "flags", "words"),
    [
        ("model.fmpair", ["--protocol", "ful"], "unknown protocol 'ful'. Did you mean 'full'?"),
        ("model.fmpair", ["--unit", "usr"], "unit must be one of"),
        ("model.fmpair", ["--metric", "ndgc@10"], "Did you mean 'ndcg'?"),
        ("model.fmpair", ["--by", "warmpth"], "Did you mean 'warmth'?"),
        ("model.fmpair", ["--set", "ml-1m-ncf"], "--set NAME instead of both"),
        ("list.csv", [], "Did you mean 'lists.csv'?"),
        ("train.csv", [], "needs a numeric column 'score' or 'rank'"),
    ],
)
def test_a_mistake_is_one_line(judge, what, flags, words):
    result = judge(what, *flags)
    assert (result.code, result.out) == (1, "")
    assert result.err.count("\n") == 1 and words in result.err


def test_without_events_there_is_nothing_to_judge_by(judge):
    assert "give --train EVENTS and --test EVENTS" in judge("model.fmpair", events=False).err


def test_a_run_folder_stands_for_its_winner(fmpair, files, model, tmp_path):
    (tmp_path / "model.fmpair").write_bytes(Path(model).read_bytes())
    (tmp_path / "plan.json").write_text("{}")
    write_json(tmp_path / WINNER, {"sha256": digest(Path(model))})
    parts = ["--train", f"{files}/events.csv", "--test", f"{files}/events.csv", "--seen", "none"]
    by_folder, by_file = (fmpair("evaluate", source, *parts) for source in (tmp_path, model))
    assert by_folder.code == 0 and by_folder.out == by_file.out


def test_a_model_of_sequences_is_shown_events_it_has_not_learned_from(fmpair, tmp_path):
    # after 7 comes 8; user 2 chose 5 last, then 7, which the model has not learned; 9 is popular
    lines = {"train": "1 5 6 5 7\n2 6 5\n3 6 7 8\n4 9\n5 9\n", "last": "2 7\n", "test": "2 8\n"}
    lines["known"] = lines["train"] + lines["last"]
    for name, text in lines.items():
        (tmp_path / f"{name}.txt").write_text(text)
    MarkovChain().fit(read(tmp_path / "train.txt", "sequences")).save(tmp_path / "m")
    asked = ["evaluate", tmp_path / "m", "--train", tmp_path / "known.txt", "--test",
             tmp_path / "test.txt", "--format", "sequences", "--protocol", "next-item",
             "--metric", "mrr@9"]  # fmt: skip
    shown = fmpair(*asked, "--shown", tmp_path / "last.txt")
    assert [rows(result)[0]["value"] for result in (fmpair(*asked), shown)] == ["0.5", "1.0"]
    assert "protocol interaction/all/seen=train/relevant=next/after=user: 1 units" in shown.err


def test_lists_cannot_be_shown_anything(judge, parts):
    result = judge("lists.csv", "--shown", parts / "test.csv")
    assert result.code == 1 and "--shown needs a model" in result.err


def test_evaluate_says_why_and_what_the_number_means_where_users_repeat(fmpair, model, files):
    parts = ["--train", files / "events.csv", "--test", files / "events.csv"]
    told = fmpair("evaluate", model, *parts).err
    assert "so seen items are ranked too (--seen none)" in told
    assert "600 of 600 test events (100%) repeat an item" in told
    assert "--relevant new to evaluate on items new to a user only" in told
    assert "warning" not in told
    given = fmpair("evaluate", model, *parts, "--seen", "train").err
    assert "by default" not in given
    assert "warning: 600 of 600 test events (100%) repeat an item" in given
    assert "Set --seen none to rank all items, or --relevant new to evaluate on" in given


def test_evaluate_keeps_the_context_of_the_model_whatever_the_test_events_look_like(
    fmpair, model, files, tmp_path
):
    import polars as pl

    events = pl.read_csv(files / "events.csv")
    night = events.filter(pl.col("daytime") == "night")  # one value only
    night.write_csv(tmp_path / "night.csv")
    parts = ["--train", files / "events.csv", "--test", tmp_path / "night.csv"]
    by = fmpair("evaluate", model, *parts, "--by", "context:daytime")
    assert by.code == 0, by.err
    assert "night" in by.out


def test_lists_with_the_names_of_the_events_are_read_by_the_same_flags(fmpair, files, tmp_path):
    frame = pl.read_csv(files / "events.csv").rename({"user": "wer", "item": "was"})
    frame.write_csv(tmp_path / "events.csv")
    names, model = ["--user", "wer", "--item", "was"], tmp_path / "m.fmpair"
    events = tmp_path / "events.csv"
    assert fmpair("fit", events, *names, "-o", model, "--factors", 4, "--epochs", 1).code == 0
    assert fmpair("recommend", model, "--include-seen", "-o", tmp_path / "lists.csv").code == 0
    assert pl.read_csv(tmp_path / "lists.csv").columns[:2] == ["wer", "was"]
    parts = ["--train", events, "--test", events, "--seen", "none"]
    assert fmpair("evaluate", tmp_path / "lists.csv", *parts, *names).code == 0
    told = fmpair("evaluate", tmp_path / "lists.csv", "--train", files / "events.csv",
                  "--test", files / "events.csv")  # fmt: skip
    assert told.code == 1 and "name it with --user COLUMN" in told.err


def test_a_terminal_gets_no_empty_columns_and_the_protocol_once(judge, terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")  # plain text in 80 columns
    terminal()
    full = judge("model.fmpair", "--protocol", "full")
    assert full.out.split()[:6] == ["metric", "value", "low", "high", "units", "coverage"]
    assert "protocol interaction/all/seen=train" in full.err
    terminal()
    sampled = judge("model.fmpair", "--protocol", "one-plus-random", "--n", "4")
    header, _, *lines = sampled.out.strip().splitlines()
    assert "corrected" in header and [line.split()[0] for line in lines] == [
        "recall@10[uni4]", "ndcg@10[uni4]"
    ]  # fmt: skip


def test_evaluate_and_update_find_the_id_columns_of_the_model(fmpair, tmp_path):
    pairs = [(f"00{user}", f"01{item}") for user in range(6) for item in range(4) if user != item]
    events, model = tmp_path / "events.csv", tmp_path / "m.fmpair"
    events.write_text("\n".join(["wer,was", *map(",".join, pairs)]))
    names = ["--user", "wer", "--item", "was"]
    assert fmpair("fit", events, *names, "-o", model, "--factors", 4, "--epochs", 1).code == 0
    parts = ["--train", events, "--test", events, "--seen", "none", "--metric", "recall@4"]
    found = fmpair("evaluate", model, *parts)
    assert [row["value"] for row in rows(found)] == ["1.0"]
    assert found.err.startswith("protocol interaction/all/seen=none: 20 units, 100.0% with a list")
    assert fmpair("update", model, events, "-o", tmp_path / "next", "--epochs", 1).code == 0
    assert set(load(tmp_path / "next").user_ids) == {user for user, _ in pairs}
