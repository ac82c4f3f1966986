import json
from pathlib import Path

import polars as pl
import pytest

from fmpair import load
from fmpair.data.read import read_frame
from fmpair.fitted import ranked_lists
from fmpair.fitted.recommender import Recommender


def rows(text):
    return [line.split(",") for line in text.splitlines()]


def test_recommend_prints_csv_into_a_pipe(fmpair, model):
    result = fmpair("recommend", model, "--user", "user-001", "-n", 3)
    assert result.code == 0 and result.err == ""
    header, *lines = rows(result.out)
    assert header == ["user", "item", "score", "rank"]
    assert [(line[0], line[3]) for line in lines] == [("user-001", str(n)) for n in (1, 2, 3)]


def test_recommend_gives_what_the_library_gives(fmpair, model, tmp_path):
    flags = ["--user", "user-001", "-c", "daytime=night", "--include-seen"]
    fmpair("recommend", model, *flags, "-o", tmp_path / "out.parquet")
    own = load(model).recommend("user-001", context={"daytime": "night"}, exclude_seen=False)
    assert pl.read_parquet(tmp_path / "out.parquet").rows() == own.rows()


def test_popularity_is_damped_for_one_question(fmpair, model, tmp_path):
    fmpair("recommend", model, "--damping", 0.8, "-o", tmp_path / "out.parquet")
    own = load(model).damped(0.8).recommend()
    assert pl.read_parquet(tmp_path / "out.parquet").rows() == own.rows()
    asked = ["--user", "user-001", "--item", "book-000", "--damping", 0.8]
    terms = rows(fmpair("explain", model, *asked).out)[1:]
    pair = pl.DataFrame({"user": ["user-001"], "item": ["book-000"]})
    score = load(model).damped(0.8).score(pair)["score"][0]
    assert sum(float(term[2]) for term in terms) == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_the_suffix_of_the_target_decides_its_format(fmpair, files, model, tmp_path, suffix):
    target = tmp_path / f"out.{suffix}"
    result = fmpair("recommend", model, "--include-seen", "-n", 2, "-o", target)
    assert (result.code, result.out) == (0, "")
    read = {"csv": pl.read_csv, "parquet": pl.read_parquet, "jsonl": pl.read_ndjson}[suffix]
    users = pl.read_csv(files / "events.csv")["user"].n_unique()  # one of the 30 has no event
    assert read(target).height == 2 * users


def test_json_lines_go_to_standard_output(fmpair, model):
    result = fmpair(
        "recommend", model, "--user", "user-001", "-n", 2, "--format", "jsonl", "-o", "-"
    )
    assert [json.loads(line)["rank"] for line in result.out.splitlines()] == [1, 2]


def test_users_and_contexts_come_from_a_file_or_standard_input(fmpair, model):
    csv = b"user_id,daytime\nuser-001,night\nuser-002,morning\n"
    result = fmpair("recommend", model, "--users-file", "-", "-n", 1, "--include-seen", stdin=csv)
    assert [line[:2] for line in rows(result.out)[1:]] == [
        ["user-001", "night"], ["user-002", "morning"],
    ]  # fmt: skip


def test_a_visitor_is_answered_by_the_items_looked_at(fmpair, model):
    result = fmpair("recommend", model, "--history", "book-000, film-000", "-n", 3)
    assert (result.code, result.err) == (0, "")
    repeated = fmpair("recommend", model, "--history", "book-000", "--history", "film-000", "-n", 3)
    assert repeated.out == result.out
    own = load(model).recommend(history=["book-000", "film-000"], n=3)
    assert [line[0] for line in rows(result.out)] == ["item", *own["item"]]


def test_an_item_with_a_comma_stands_in_quotes(fmpair, model):
    asked = ["--history", '"Hammer, 300 g", book-000', "-n", 3]
    assert (
        "unknown item 'Hammer, 300 g'"
        in fmpair("recommend", model, *asked, "--unknown", "error").err
    )
    result = fmpair("recommend", model, *asked)
    assert "1 of 2 items" in result.err
    own = load(model).recommend(history=["book-000"], n=3)
    assert [line[0] for line in rows(result.out)] == ["item", *own["item"]]


def test_items_may_stand_on_lines_of_their_own(fmpair, model):
    lines, commas = (
        fmpair("recommend", model, "--history", text, "-n", 3).out
        for text in ("book-000\nfilm-000", "book-000,film-000")
    )
    assert lines == commas


def test_visitors_come_from_a_file(fmpair, model):
    csv = b"request,history\nr1,book-000|film-000\nr2,book-001\n"
    result = fmpair("recommend", model, "--users-file", "-", "-n", 1, stdin=csv)
    assert [line[0] for line in rows(result.out)] == ["request", "r1", "r2"]


def test_what_is_passed_over_is_said_in_one_line(fmpair, model):
    asked = ["--user", "user-001", "--include-seen", "-n", 20]
    result = fmpair("recommend", model, *asked, "--exclude", "boo-001", "--exclude", "book-001")
    assert result.code == 0 and len(rows(result.out)) == 20
    assert result.err == (
        "note: --exclude: 1 of 2 items are unknown and ignored, the first is 'boo-001'; "
        "--unknown error refuses them\n"
    )


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "parquet", "jsonl"])
def test_lists_of_all_are_written_part_by_part(fmpair, model, tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(ranked_lists, "USERS_AT_ONCE", 7)
    monkeypatch.setattr(Recommender.recommend_in_parts, "__kwdefaults__", {"size": 7})
    result = fmpair("recommend", model, "--all", "-o", tmp_path / f"lists.{suffix}")
    own = load(model).recommend()
    assert result.err == f"wrote {len(own):,} rows to {tmp_path}/lists.{suffix}\n"
    found = read_frame(tmp_path / f"lists.{suffix}")
    assert found.drop("score").equals(own.drop("score"))
    assert [path.name for path in tmp_path.iterdir()] == [f"lists.{suffix}"]


def test_lists_of_all_go_to_a_folder_part_by_part_and_are_resumed(
    fmpair, model, tmp_path, monkeypatch
):
    monkeypatch.setattr(ranked_lists, "USERS_AT_ONCE", 7)
    monkeypatch.setitem(ranked_lists.recommend_to_folder.__kwdefaults__, "size", 7)
    folder, own = tmp_path / "lists", load(model).recommend()
    count = -(-own["user"].n_unique() // 7)
    result = fmpair("recommend", model, "--all", "-o", folder)
    assert result.err == f"wrote {count} parts to {folder}\n"
    parts = sorted(folder.glob("*.parquet"))
    assert len(parts) == count and pl.read_parquet(parts).equals(own)
    kept = parts[0].stat().st_mtime_ns
    parts[1].unlink()
    result = fmpair("recommend", model, "--all", "-o", folder)
    assert result.err == f"wrote 1 part to {folder}\n"
    assert pl.read_parquet(parts).equals(own) and parts[0].stat().st_mtime_ns == kept
    result = fmpair("recommend", model, "--all", "-n", 3, "-o", folder)
    assert result.code == 1
    assert result.err == (
        f"error: {folder} holds the lists of another model, or of other options: choose a new "
        "folder as --output\n"
    )


def test_a_file_without_a_suffix_is_one_whose_format_is_named(fmpair, model, tmp_path):
    fmpair("recommend", model, "--all", "--format", "csv", "-o", tmp_path / "lists")
    assert (tmp_path / "lists").read_text().startswith("user,item,score,rank")
    result = fmpair("recommend", model, "--all", "-o", tmp_path / "lists")
    assert result.err == f"error: cannot make the folder {tmp_path}/lists: File exists\n"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_an_interrupt_leaves_nothing_half_written(fmpair, model, tmp_path, monkeypatch, suffix):
    (tmp_path / f"lists.{suffix}").write_text("older")

    def interrupted(self, users=None, n=10, **options):
        yield self.recommend("user-001", n)
        raise KeyboardInterrupt

    monkeypatch.setattr(Recommender, "recommend_in_parts", interrupted)
    result = fmpair("recommend", model, "--all", "-o", tmp_path / f"lists.{suffix}")
    assert (result.code, result.err) == (130, "interrupted\n")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["older"]


def test_candidates_and_exclude_bound_the_list(fmpair, model, tmp_path):
    (tmp_path / "items.csv").write_text("item\nbook-000\nbook-001\nfilm-000\n")
    result = fmpair(
        "recommend", model, "--user", "user-001", "--include-seen",
        "--candidates", tmp_path / "items.csv", "--exclude", "film-000",
    )  # fmt: skip
    assert {line[1] for line in rows(result.out)[1:]} == {"book-000", "book-001"}


def test_an_unknown_user_is_served_where_that_is_wanted(fmpair, model):
    result = fmpair("recommend", model, "--user", "nobody", "--unknown", "features", "-n", 1)
    assert result.code == 0 and len(rows(result.out)) == 2


def test_similar_lists_items_or_users(fmpair, model):
    assert rows(fmpair("similar", model, "--item", "book-000", "-n", 2).out)[0][0] == "item"
    assert rows(fmpair("similar", model, "--user", "user-001", "-n", 2).out)[0][0] == "user"


def test_explain_gives_terms_that_add_up_to_the_score(fmpair, model):
    flags = ["--user", "user-001", "--item", "book-000", "--context", "place=home"]
    terms = rows(fmpair("explain", model, *flags).out)[1:]
    pair = pl.DataFrame({"user": ["user-001"], "item": ["book-000"], "place": ["home"]})
    score = load(model).score(pair)["score"][0]
    assert sum(float(term[2]) for term in terms) == pytest.approx(score, abs=1e-5)


def test_explain_gives_the_terms_of_a_visitor(fmpair, model):
    flags = ["--history", "book-001,book-002", "--item", "book-000"]
    terms = rows(fmpair("explain", model, *flags).out)[1:]
    lists = load(model).recommend(history=["book-001", "book-002"], n=999, exclude_seen=False)
    score = lists.filter(item="book-000")["score"][0]
    assert sum(float(term[2]) for term in terms) == pytest.approx(score, abs=1e-5)


def test_a_terminal_gets_tables(fmpair, model, terminal):
    terminal()
    result = fmpair("recommend", model, "--include-seen")
    assert "──" in result.out and "240 more rows" in result.err
    terminal()
    result = fmpair("explain", model, "--user", "user-001", "--item", "book-000")
    assert "for anyone" in result.out and "score" in result.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["recommend", "--user", "user-01"], "unknown user 'user-01'. Did you mean"),
        (["recommend", "--user", "User-001 "], "Did you mean 'user-001'? Known: 'user-"),
        (["recommend", "-c", "daytme=night"], "unknown context 'daytme'. Did you mean 'daytime'?"),
        (["recommend", "-c", "daytime=nigth"], "Did you mean 'night'?"),
        (["recommend", "-c", "night"], "--context takes name=value, not 'night'"),
        (["recommend", "-n", "0"], "n must be a whole number of at least 1"),
        (["recommend", "--exclude", "boo-001", "--unknown", "error"], "unknown item 'boo-001'"),
        (["recommend", "--history", "boo-001", "--unknown", "error"], "unknown item 'boo-001'"),
        (["recommend", "--all", "--user", "a"], "--user and --all cannot be combined"),
        (["recommend", "--history", "a", "--all"], "--history and --all cannot be combined"),
        (
            ["recommend", "--user", "user-001", "--user", "user-002", "--history", "book-000"],
            "--history is that of one user, not of 2: for several give --users-file FILE",
        ),
        (["recommend", "--user", "a", "--users-file", "b"], "cannot be combined"),
        (["recommend", "--unknown", "guess"], "unknown must be one of"),
        (["recommend", "-o", "out.xyz"], "cannot infer the format of out.xyz"),
        (["recommend", "-o", "no/folder/out.csv"], "cannot write no/folder/out.csv"),
        (["similar"], "give either --item ID or --user ID"),
        (["similar", "--item", "book-0"], "unknown item 'book-0'"),
        (["explain", "--user", "user-001", "--item", "nothing"], "unknown item 'nothing'"),
        (["explain", "--item", "book-000"], "give --user, or --history of a visitor"),
    ],
)
def test_a_mistake_is_one_clear_line(fmpair, model, arguments, words):
    verb, *flags = arguments
    result = fmpair(verb, model, *flags)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("error: ") and result.err.count("\n") == 1
    assert words in result.err


def test_more_items_than_the_catalogue_has_are_simply_all(fmpair, model):
    result = fmpair("recommend", model, "--user", "user-001", "-n", 1000, "--include-seen")
    assert len(rows(result.out)) == 1 + 20


@pytest.mark.parametrize("kind", ["missing", "empty", "foreign", "truncated", "tampered"])
def test_a_file_that_is_no_whole_model_is_refused(fmpair, model, tmp_path, kind):
    path = tmp_path / "m.fmpair"
    content = Path(model).read_bytes()
    if kind != "missing":
        path.write_bytes({
            "empty": b"", "foreign": b"user,item\na,b\n", "truncated": content[:-100],
            "tampered": content[:-1] + bytes([content[-1] ^ 1]),
        }[kind])  # fmt: skip
    result = fmpair("recommend", path)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("error: ") and result.err.count("\n") == 1
    assert str(path) in result.err


def test_a_users_file_without_users_is_refused(fmpair, model, tmp_path):
    (tmp_path / "u.csv").write_text("daytime\nnight\n")
    result = fmpair("recommend", model, "--users-file", tmp_path / "u.csv")
    assert result.code == 1 and "has no user column" in result.err


def test_a_damaged_model_is_said_in_one_line(fmpair, model, tmp_path):
    content = Path(model).read_bytes()
    for spoiled in (content[:-9], content[:9], b"", content.replace(b'"F32"', b'"F64"', 1)):
        (tmp_path / "m.fmpair").write_bytes(spoiled)
        result = fmpair("recommend", tmp_path / "m.fmpair")
        assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
        assert result.err.startswith("error: ") and f"{tmp_path}/m.fmpair" in result.err
