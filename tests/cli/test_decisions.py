"""What the columns of a file are taken for, as verbs print it."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fmpair import load
from fmpair.config.data_columns import header_of
from fmpair.config.read import validate
from fmpair.testing import shop_log

QUICK = ("--factors", "2", "--epochs", "1")
PLAIN = ("--history", "0", "--times", "false", "--fm-order", "2")


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shop_log(60, 60, 900).write_csv("shop.csv")
    return "shop.csv"


def roles(lines):
    """Column -> role, of a printed table."""
    rows = [line.split("  ") for line in lines[1:]]
    return {row[0]: next(cell.strip() for cell in row[1:] if cell.strip()) for row in rows}


def test_a_dry_run_prints_the_table_and_nothing_else(fmpair, shop, tmp_path):
    for verb in ("fit", "init"):
        result = fmpair(verb, shop, "--dry-run")
        assert (result.code, result.err) == (0, "")
        found = roles(result.out.splitlines())
        assert found["price"] == "item attribute"
        assert found["event_time"] == "timestamp"
        assert found["device"] == "context"
        assert found["shop"] == "left out"
    assert [path.name for path in tmp_path.iterdir()] == ["shop.csv"]


def test_fit_says_what_it_took_columns_for_and_leaves_the_clock_alone(fmpair, shop):
    result = fmpair("fit", shop, "-o", "m.fmpair", *QUICK)
    assert result.code == 0, result.err
    assert "price       item attribute  " in result.err
    assert load("m.fmpair").space.context == ["device", "daytime"]


def test_the_flag_of_every_line_works_when_typed(fmpair, shop):
    lines = fmpair("fit", shop, "--dry-run").out.splitlines()
    place = lines[0].index("otherwise")
    for line in lines[1:]:
        flag = line[place:]
        if flag.endswith("COLUMN"):
            continue
        again = fmpair("fit", shop, "--dry-run", *flag.split())
        assert again.code == 0, again.err
        option, name = flag.split()
        expected = {"--ignore": None, "--leak": "context", "--timestamp": "timestamp"}[option]
        assert roles(again.out.splitlines()).get(name) == expected


def test_a_role_is_changed_by_its_own_flag_and_an_attribute_left_out(fmpair, shop):
    lines = fmpair("fit", shop, "--dry-run").out.splitlines()
    place = lines[0].index("otherwise")
    assert {line.split()[0]: line[place:] for line in lines[1:]} == {
        "event_time": "--timestamp COLUMN",
        "event_type": "--event-type COLUMN",
        "user_id": "--user COLUMN",
        "product_id": "--item COLUMN",
        "price": "--ignore price",
        "session_id": "--session COLUMN",
        "device": "--ignore device",
        "daytime": "--ignore daytime",
        "shop": "--leak shop",
        "logged_ms": "--timestamp logged_ms",
    }


def test_a_dry_run_counts_rows_without_a_user_or_item(fmpair, shop):
    row = pl.int_range(pl.len())
    user = pl.when(row < 7).then(None).otherwise("user_id")
    pl.read_csv(shop).with_columns(user_id=user).write_csv("gaps.csv")
    said = fmpair("fit", "gaps.csv", "--dry-run").err
    assert said == (
        "note: left out 7 of 900 rows without a user or item (7 in 'user_id'); --missing error "
        "refuses them\n"
    )


def test_prices_with_a_decimal_comma_are_taken_as_those_with_a_point(fmpair, shop):
    comma = pl.col("price").cast(pl.String).str.replace(".", ",", literal=True)
    pl.read_csv(shop).with_columns(comma).write_csv("comma.csv", separator=";")
    result = fmpair("fit", "comma.csv", "--dry-run")
    assert re.search(r"'(\d+),(\d+)', and is read as numbers: \1,\2 is \1\.\2$", result.err, re.M)
    assert result.out == fmpair("fit", str(shop), "--dry-run").out


def test_a_run_says_it_in_the_words_of_the_file(fmpair, shop, caplog):
    text = "data: {path: shop.csv}\nmodels: [popularity]\nsplit: {kind: by_time, test: 0.2}\n"
    with open("bare.yaml", "w") as file:
        file.write(text)
    result = fmpair("run", "bare.yaml", "--quiet")
    assert result.code == 0, result.err
    said = caplog.text
    assert 'give leaks: ["price", "shop"]' in said
    assert "leaks=[" not in said


def test_the_file_of_init_has_every_decision(fmpair, shop):
    assert fmpair("init", shop, "-o", "a.yaml").code == 0
    options = validate("a.yaml").data.options
    assert options["timestamp"] == "event_time"
    assert options["session"] == "session_id"
    assert options["context"] == ["device", "daytime"]
    assert options["item_columns"] == ["price"]


def test_columns_of_the_item_table_are_learned_or_kept_as_the_flags_say(fmpair, shop):
    items = pl.read_csv(shop).select(pl.col("product_id").unique()).with_row_index("row")
    items = items.with_columns(pl.format("Tea {}", "row").alias("name"), kind=pl.col("row") % 2)
    items.drop("row").write_csv("items.csv")
    flags = ("--items", "items.csv", "--item-column", "name", "--display", "kind")
    result = fmpair("fit", shop, *flags, *QUICK, *PLAIN, "-o", "m.fmpair")
    assert result.code == 0 and "kept for rules" not in result.err
    learned = {encoder.name for encoder in load("m.fmpair").space.item.encoders}
    assert learned == {"price", "name"}
    assert fmpair("init", shop, *flags, "-o", "a.yaml").code == 0
    options = validate("a.yaml").data.options
    assert options["item_columns"] == ["price", "name"] and options["display"] == ["kind"]


@pytest.mark.parametrize("verb", ["fit", "init"])
def test_a_dry_run_prints_the_columns_of_tables_and_vectors_too(fmpair, shop, verb):
    items = pl.read_csv(shop).select(pl.col("product_id").unique(maintain_order=True))
    items.with_columns(kind=pl.lit("tea"), title=pl.lit("Tea")).write_csv("items.csv")
    pl.read_csv(shop).select(pl.col("user_id").unique(), age=30).write_csv("users.csv")
    np.save("looks.npy", np.random.default_rng(0).normal(size=(len(items), 3)))
    tables = ("--items", "items.csv", "--users", "users.csv", "--vectors", "looks.npy")
    result = fmpair(verb, shop, *tables, "--dry-run")
    log, table = result.out.split("\n\n")
    assert roles(log.splitlines())["price"] == "item attribute"
    assert roles(table.splitlines()) == {
        "age": "user attribute",
        "kind": "item attribute",
        "title": "display only",
        "looks": "item attribute",
    }
    assert "vectors of 3 numbers" in table
    flags = {"fit": "--item-column title", "init": 'item_columns: ["title"]'}
    assert flags[verb] in table


def test_init_counts_rows_that_are_exact_copies(fmpair, shop):
    log = pl.read_csv(shop)
    pl.concat([log, log.head(7)]).write_csv("twice.csv")
    assert "copies" not in fmpair("init", shop, "--dry-run").err
    said = fmpair("init", "twice.csv", "--dry-run").err
    assert "7 rows are exact copies of earlier ones: they count as events too" in said


def test_init_writes_a_file_without_context(fmpair, shop):
    assert fmpair("init", shop, "--no-context", "-o", "a.yaml").code == 0
    assert validate("a.yaml").data.options["context"] == []


@pytest.mark.parametrize("option", ["item_columns", "display"])
def test_a_misspelt_column_of_the_item_table_gets_the_nearest_name(fmpair, shop, option):
    items = pl.read_csv(shop).select(pl.col("product_id").unique(), kind=pl.lit("tea"))
    items.write_csv("items.csv")
    flag = {"item_columns": "--item-column", "display": "--display"}[option]
    said = fmpair("fit", shop, "--items", "items.csv", flag, "knd").err
    assert "unknown column 'knd'. Did you mean 'kind'?" in said
    text = f"data: {{path: {shop}, items: items.csv, {option}: [knd]}}\nmodels: [popularity]\n"
    Path("a.yaml").write_text(f"name: a\n{text}metrics: [ndcg@10]\n")
    said = fmpair("validate", "a.yaml").err
    assert f"data.{option}: unknown column 'knd'. Did you mean 'kind'?" in said
    Path("a.yaml").write_text(Path("a.yaml").read_text().replace("knd", "kind"))
    assert fmpair("validate", "a.yaml").code == 0


def test_init_keeps_weights_of_kinds_and_columns_that_are_context_by_your_word(fmpair, shop):
    weights = ["--event-weight", "view=1", "--event-weight", "cart=3", "--event-weight", "buy=5"]
    assert fmpair("init", shop, "-o", "a.yaml", *weights, "--leak", "price").code == 0
    options = validate("a.yaml").data.options
    assert options["event_weights"] == {"view": 1, "cart": 3, "buy": 5}
    assert options["leaks"] == ["price"] and "price" in options["context"]


def test_other_verbs_say_it_in_one_line_with_their_flags(fmpair, shop):
    result = fmpair("data", "describe", shop)
    assert result.err.count("\n") == 1
    assert "'price' (item attribute: " in result.err
    assert result.err.endswith("give --leak price --leak shop\n")


def test_a_conversion_loses_no_column(fmpair, shop):
    assert fmpair("data", "convert", shop, "b.csv").err == "wrote 900 events to b.csv\n"
    before, after = pl.read_csv(shop), pl.read_csv("b.csv")
    assert after["price"].equals(before["price"])
    assert after["shop"].equals(before["shop"])
    assert len(after.columns) == len(before.columns)


def test_weights_by_kind_of_event(fmpair, shop):
    given = ["--event-weight", "view=1", "--event-weight", "cart=3", "--event-weight", "buy=5"]
    assert fmpair("fit", shop, "-o", "m", "-q", *QUICK, *given).code == 0
    short = fmpair("fit", shop, "-o", "m", "-q", *QUICK, *given[:2])
    assert "--event-weight has no weight for buy, cart: give every" in short.err
    other = fmpair("fit", shop, "-o", "m", "-q", *QUICK, *given[:4], "--event-weight", "bought=5")
    assert "no weight for buy (no event has type 'bought'): give every" in other.err
    wrong = fmpair("fit", shop, "-o", "m", "-q", *QUICK, "--event-weight", "view=much")
    assert wrong.err == "error: --event-weight view takes a number, not 'much'\n"


def test_levels_of_events_are_a_flag(fmpair, shop):
    assert fmpair("fit", shop, "-o", "m", "-q", *QUICK, "--levels", "view,cart,buy").code == 0
    assert load("m").recipe.levels == ["view", "cart", "buy"]
    short = fmpair("fit", shop, "-o", "m", "-q", *QUICK, "--levels", "view,cart")
    right = "list all of view, cart, buy, the lowest first"
    assert short.err == f"error: --levels leaves out buy: {right}\n"
    other = fmpair("fit", shop, "--dry-run", "--levels", "view,cart,purchase")
    said = "error: no event has type 'purchase'; the events have view, cart, buy\n"
    assert other.code == 1 and other.err == said


def test_fit_leaves_refunds_out_with_one_line(fmpair, shop):
    row = pl.int_range(pl.len())
    sold = pl.read_csv(shop).with_columns(quantity=pl.when(row < 7).then(-1).otherwise(1))
    sold.write_csv(shop)
    result = fmpair("fit", shop, "-o", "m.fmpair", *QUICK)
    said = "note: left out 7 of 900 events that are refunds (7 by 'quantity'); --refunds keep takes"
    assert result.err.count(said) == 1
    assert "read 893 events" in result.err
    kept = fmpair("fit", shop, "-o", "m.fmpair", "--refunds", "keep", *QUICK)
    assert "refunds" not in kept.err and "read 900 events" in kept.err


def test_files_of_vectors_are_read_at_the_shell_and_in_experiment_files(fmpair, shop, tmp_path):
    items = pl.read_csv(shop)["product_id"].unique(maintain_order=True)
    np.save("titles.npy", np.eye(len(items))[:, :5])
    (tmp_path / "titles.ids.txt").write_text("\n".join(map(str, items)))
    assert fmpair("fit", shop, "--vectors", "titles.npy", "--dry-run").code == 0
    wrong = fmpair("fit", shop, "--vectors", "title.npy", "--dry-run")
    assert "cannot read vectors from title.npy: No such file" in wrong.err
    assert fmpair("init", shop, "-o", "e.yaml", "--vectors", "titles.npy").code == 0
    source = validate("e.yaml").data
    assert source.options["vectors"] == [str(tmp_path / "titles.npy")]
    assert "titles" in header_of(source).items
