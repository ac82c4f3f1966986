import io

import polars as pl


def table(text):
    return pl.read_csv(io.StringIO(text))


def test_models_lists_every_model_with_one_line(fmpair):
    done = fmpair("models")
    frame = table(done.out)
    assert done.code == 0 and frame.columns == ["name", "family", "line", "missing"]
    assert {"fm-pair", "popularity", "ease", "bpr-mf"} <= set(frame["name"])


def test_show_gives_the_options_of_one_model(fmpair):
    done = fmpair("models", "show", "implicit-als")
    frame = table(done.out)
    assert done.code == 0 and "least squares" in done.err
    assert "alpha" in frame["option"].to_list()
    assert frame.columns == ["option", "type", "default", "description", "group"]


def test_the_options_that_most_people_need_come_first(fmpair):
    frame = table(fmpair("models", "show", "fm-pair").out).fill_null("")
    groups = list(dict.fromkeys(frame["group"]))
    assert groups == ["", "Order three", "Negatives", "Regularisation", "Scores", "Engine"]
    assert len(frame.filter(pl.col("group") == "")) == 14
    assert frame["option"][0] == "factors"


def test_an_unknown_model_gets_the_nearest_name(fmpair):
    done = fmpair("models", "show", "implicit_als")
    assert done.code != 0 and "Did you mean 'implicit-als'?" in done.err


def test_the_list_can_go_to_a_file(fmpair, tmp_path):
    assert fmpair("models", "-o", tmp_path / "models.csv").code == 0
    assert "ease" in (tmp_path / "models.csv").read_text()


def test_a_model_is_shown_by_its_name_alone(fmpair):
    alone, shown = fmpair("models", "ease"), fmpair("models", "show", "ease")
    assert alone.code == 0 and (alone.out, alone.err) == (shown.out, shown.err)
    wrong = fmpair("models", "eese")
    assert wrong.code == 1 and "Did you mean 'ease'?" in wrong.err


def test_a_terminal_gets_the_models_by_family(fmpair, terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")  # plain text in 80 columns
    terminal()
    out = fmpair("models").out
    assert out.startswith("baseline") and "family" not in out
    assert "  popular-lately   Ranks items by their number of recent events. " in out
