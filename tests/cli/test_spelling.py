"""Error messages at the shell write options as flags."""

import re
from pathlib import Path

import pytest

import fmpair as fmpair_package
from fmpair.cli.application import command
from fmpair.cli.flags import in_shell


def saved(folder, name, text):
    (folder / name).write_text(text)
    return f"{folder}/{name}"


NAMED = "usr,itme\na,b\n"
GOOD = "user,item\na,b\nc,d\nc,b\n"
LEAKING = "user,item,genre\n" + "".join(f"u{n},i{n % 60},g{n % 3}\n" for n in range(120))


@pytest.mark.parametrize("text, flags, told", [
    (NAMED, "", "Is it 'usr'? Then give --user usr."),
    (NAMED, "--user usr", "Is it 'itme'? Then give --item itme"),
    ("1,2,3\n4,5,6\n", "", "give --no-header and --column user --column item --column ..."),
    ("user;item\na;b\n", "--separator ,", "give --separator ';'"),
    ("user\titem\na\tb\n", "--separator ,", "give --separator '\\t'"),
    ("user,item,rating\na,b,\nc,d,1\n", "", "leave the column out with --ignore rating"),
    ("user,item,t\na,b,x\nc,d,y\n", "--timestamp t", "another column with --timestamp COLUMN"),
    (LEAKING, "--context genre", "with --item-column genre, or drop it with --ignore genre"),
    (GOOD, "--learning-rate -1", "error: --learning-rate must be a number above 0"),
    (GOOD, "--own-share 1 --impression-share 1",
     "--own-share and --impression-share must sum to at most 1"),
    (GOOD, "--impression-share 0.5", "as --impressions TABLE, or use the filter dislikes"),
    (GOOD, "--validation 2", "--validation must be a share between 0 and 1"),
    (GOOD, "--groups x", "unknown option '--groups'. Known: --separator, "),
    ("1 0:1 1:1\n", "--format libfm", "libFM rows need --groups FILE"),
])  # fmt: skip
def test_fit_names_its_flags(fmpair, tmp_path, text, flags, told):
    path = saved(tmp_path, "events.csv", text)
    done = fmpair("fit", path, "-q", "-o", tmp_path / "m.fmpair", *flags.split())
    assert done.code == 1 and told in done.err, done.err
    assert done.err.count("\n") == 1 and ":option:" not in done.err


def test_letters_of_another_encoding_are_read_by_the_flag_that_the_message_names(fmpair, tmp_path):
    path = tmp_path / "events.csv"
    path.write_bytes("user,item\nJosé,b\nc,d\n".encode("latin-1"))
    refused = fmpair("data", "describe", path)
    assert refused.code == 1 and "give another encoding, such as --encoding latin-1" in refused.err
    assert fmpair("data", "describe", path, "--encoding", "latin-1").code == 0


def test_an_id_that_reads_as_missing_is_kept_by_the_flag_that_the_note_names(fmpair, tmp_path):
    path = saved(tmp_path, "events.csv", "user,item\nann,NA\nbob,x\n")
    table = saved(tmp_path, "items.csv", "item,colour\nNA,red\nx,NaN\n")
    refused = fmpair("data", "describe", path, "--items", table)
    assert "'item' has 'NA' in 1 row, read as missing: --null '' keeps it as an id" in refused.err
    assert refused.code == 1 and "has 1 row without an id in 'item'" in refused.err
    kept = fmpair("data", "describe", path, "--items", table, "--null", "")
    assert kept.code == 0 and "\nitems,2\n" in kept.out


@pytest.mark.parametrize("arguments, told", [
    (["recommend", "--unknown", "x"], "error: --unknown must be one of"),
    (["recommend", "-n", "0"], "error: -n must be a whole number of at least 1"),
    (["evaluate", "--unit", "user", "--by", "popularity"], "evaluate with --unit interaction"),
    (["evaluate", "--candidates", "uniform", "--metric", "coverage@5"],
     "needs a protocol with --candidates all or train"),
    (["evaluate", "--candidates", "file"], "and --candidates file require each other"),
])  # fmt: skip
def test_verbs_that_ask_a_model_name_their_own_flags(fmpair, files, model, arguments, told):
    verb, *rest = arguments
    parts = ["--train", f"{files}/events.csv", "--test", f"{files}/events.csv", "--seen", "none"]
    done = fmpair(verb, model, *rest, *(parts if verb == "evaluate" else []))
    assert done.code == 1 and told in done.err, done.err


def test_what_stands_in_an_experiment_file_is_named_as_the_file_has_it(
    fmpair, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    saved(tmp_path, "events.csv", "usr,item\na,b\nc,d\n")
    saved(tmp_path, "a.yaml", "data: {path: events.csv}\nmodels: [popularity]\n")
    done = fmpair("run", "a.yaml")
    assert done.code == 1 and "name it with user: ..." in done.err, done.err


def test_a_folder_that_is_taken_is_told_with_the_flag(fmpair, tmp_path, monkeypatch):
    from fmpair.experiment.folder import open_folder

    saved(
        tmp_path,
        "a.yaml",
        "data: {generate: {users: 20, items: 15, events: 300}}\nmodels: [random]\n",
    )
    with open_folder(tmp_path / "run"):
        done = fmpair("run", tmp_path / "a.yaml", "-f", tmp_path / "run")
    assert done.code == 1 and "choose another --folder" in done.err


READERS = (
    "columns/roles",
    "dataset",
    "formats/delimited",
    "formats/libfm",
    "formats/source",
    "times",
)
ONLY_IF_GIVEN = {"event_weights"}  # messages name it only to those who gave it


def options_named_by(modules):
    """The options that messages of readers speak of."""
    folder = Path(fmpair_package.__file__).parent / "data"
    texts = [(folder / f"{name}.py").read_text("utf-8") for name in modules]
    return {name for text in texts for name in re.findall(r"named\(\s*[\"']([a-z_]+)", text)}


@pytest.mark.parametrize(
    ("verb", "modules"),
    [
        *((verb, READERS) for verb in ("fit", "update", "fold-in", "evaluate")),
        *((f"data {verb}", READERS) for verb in ("describe", "convert")),
        ("init", [name for name in READERS if name != "formats/libfm"]),
        ("recommend", ["formats/delimited"]),
    ],
)
def test_every_option_that_readers_name_is_a_flag_of_the_verbs_that_read(verb, modules):
    spell = in_shell(command(), [*verb.split(), "x"])
    named = options_named_by(modules) - ONLY_IF_GIVEN
    assert [name for name in named if not spell(name).startswith("-")] == []
    assert spell("encoding", "latin-1") == "--encoding latin-1"
