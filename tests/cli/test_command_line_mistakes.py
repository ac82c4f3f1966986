"""Mistakes at the command line: each line names what is wrong, and what would be right works.

A row: the mistake, a part of the line that names what is wrong, one that stands both in the line
and in what is typed next, and what is typed next. FAST makes a fit short.
"""

import shlex
import shutil
from pathlib import Path

import pytest

FAST = "-q --factors 4 --epochs 1"
FILES = {
    "latin.csv": "user,item\nJosé,b\nc,d\n",
    "semicolons.csv": "user;item\na;b\nc;d\n",
    "ragged.csv": "user,item,time\na,b,day\nc,d\ne,f,night\n",
    "headless.csv": "1,2\n3,4\n",
    "gaps.csv": "user,item\na,b\n,d\ne,f\n",
    "named.csv": "usr,item\na,b\nc,d\n",
    "foreign.csv": "Besucher,aktion,session_id,item_id\na,klick,1,b\nc,kauf,2,d\na,kauf,3,d\n",
    "timed.csv": "user,item,timestamp\na,b,1700000000\nc,d,1700000060\na,d,1700000120\n",
    "latin_users.csv": "user,town\nuser-001,Málaga\nuser-002,Jaén\n",
    "semicolon_users.csv": "user;daytime\nuser-001;night\n",
    "names.csv": "name\nuser-001\n",
    "user.csv": "user\nuser-001\n",
    "latin_lists.csv": "user,item,score,note\nuser-001,book-001,1,Málaga\n",
    "late.csv": "user,item\nlate,brand-new\nlate,also-new\n",
    "a.yaml": "data: {path: events.csv}\nmodels: [popularity]\nseeds: [0]\n",
}
PARTS = "--train events.csv --test events.csv --seen none"

MISTAKES = [
    # Verbs and flags
    ("fitt events.csv", "no such command 'fitt'", "fit", f"fit events.csv {FAST}"),
    ("train events.csv", "no such command 'train'", "fit", f"fit events.csv {FAST}"),
    ("predict model.fmpair --user user-001", "no such command 'predict'", "recommend",
     "recommend model.fmpair --user user-001"),
    ("recommend model.fmpair --n 3", "unknown option '--n'", "-n", "recommend model.fmpair -n 3"),
    ("data describ events.csv", "no such command 'describ'", "describe",
     "data describe events.csv"),
    (f"fit events.csv {FAST} --fators 8", "unknown option '--fators'", "--factors",
     "fit events.csv -q --factors 4 --epochs 1"),
    (f"fit events.csv {FAST} --n-factors 8", "unknown option '--n-factors'", "--factors",
     "fit events.csv -q --factors 4 --epochs 1"),
    (f"fit events.csv {FAST} --lr 0.1", "unknown option '--lr'", "--learning-rate",
     f"fit events.csv {FAST} --learning-rate 0.1"),
    (f"fit events.csv {FAST} --reg 0.1", "unknown option '--reg'", "--regularization",
     f"fit events.csv {FAST} --regularization 0.1"),
    ("fit events.csv -q --epochs 1 --factors 100000", "--factors can be 2,048 at most", "2",
     "fit events.csv -q --epochs 1 --factors 2"),
    ("recommend model.fmpair --usr user-001", "unknown option '--usr'", "--user",
     "recommend model.fmpair --user user-001"),
    ("recommend model.fmpair user-001", "unexpected extra argument", "--user user-001",
     "recommend model.fmpair --user user-001"),
    ("similar model.fmpair book-001", "unexpected extra argument", "--item book-001",
     "similar model.fmpair --item book-001"),
    ("explain model.fmpair --user user-001", "missing option", "--item",
     "explain model.fmpair --user user-001 --item book-001"),
    ("update model.fmpair events.csv", "missing option", "-o",
     "update model.fmpair events.csv --epochs 1 -o next.fmpair"),
    ("models fm-pare", "unknown model 'fm-pare'", "fm-pair", "models fm-pair"),
    # Files
    (f"fit event.csv {FAST}", "there is no file event.csv", "events.csv", f"fit events.csv {FAST}"),
    (f"fit latin.csv {FAST}", "not utf-8 text", "--encoding latin-1",
     f"fit latin.csv {FAST} --encoding latin-1"),
    (f"fit semicolons.csv {FAST} --separator ,", "a single column", "--separator ';'",
     f"fit semicolons.csv {FAST} --separator ';'"),
    (f"fit ragged.csv {FAST}", "line 3 has 2 columns", "--ragged drop",
     f"fit ragged.csv {FAST} --ragged drop"),
    ("data describe ragged.csv", "line 3 has 2 columns", "--ragged fill",
     "data describe ragged.csv --ragged fill"),
    (f"fit headless.csv {FAST}", "has numbers, not column names",
     "--column user --column item",
     f"fit headless.csv {FAST} --no-header --column user --column item"),
    (f"fit gaps.csv {FAST} --missing error", "1 missing user ids", "--missing drop",
     f"fit gaps.csv {FAST} --missing drop"),
    (f"fit gaps.csv {FAST} --missing drp", "--missing must be one of", "drop",
     f"fit gaps.csv {FAST} --missing drop"),
    (f"fit named.csv {FAST}", "no user column found", "--user usr",
     f"fit named.csv {FAST} --user usr"),
    (f"fit foreign.csv {FAST}", "no user column found among Besucher, aktion, session_id, item_id",
     "--user session_id", f"fit foreign.csv {FAST} --user session_id"),
    (f"fit events.csv {FAST} --users latin_users.csv", "latin_users.csv is not utf-8 text",
     "--encoding latin-1", f"fit events.csv {FAST} --users latin_users.csv --encoding latin-1"),
    (f"fit events.csv {FAST} --format cvs", "unknown format 'cvs'", "csv",
     f"fit events.csv {FAST} --format csv"),
    ("data convert events.csv x.abc", "cannot infer the format of x.abc", ".csv",
     "data convert events.csv x.csv"),
    (f"fit events.csv {FAST} -o new/model.fmpair", "cannot write new/model.fmpair", "new",
     f"mkdir new && fit events.csv {FAST} -o new/model.fmpair"),
    (f"fit events.csv {FAST} -o -", "a model cannot be written to standard output", "-o",
     f"fit events.csv {FAST} -o another.fmpair"),
    (f"fit a.yaml {FAST}", "is an experiment file, not a table", "run a.yaml",
     "run a.yaml"),
    ("recommend a.yaml", "is an experiment file, not a model", "run", "run a.yaml"),
    # Columns and options
    (f"fit events.csv {FAST} --context daytme", "unknown column 'daytme'", "daytime",
     f"fit events.csv {FAST} --context daytime"),
    (f"fit events.csv {FAST} --ignore plase", "unknown column 'plase'", "place",
     f"fit events.csv {FAST} --ignore place"),
    (f"fit events.csv {FAST} --field daytime=categoricl", "kind must be one of", "categorical",
     f"fit events.csv {FAST} --field daytime=categorical"),
    (f"fit events.csv {FAST} --loss bprr", "--loss must be one of", "bpr",
     f"fit events.csv {FAST} --loss bpr"),
    (f"fit events.csv {FAST} --validation 2", "--validation must be a share between", "0",
     f"fit events.csv {FAST} --validation 0.2"),
    (f"fit events.csv {FAST} --order 2", "--order 2 is not an order of rows", "--fm-order 2",
     f"fit events.csv {FAST} --fm-order 2"),
    (f"fit events.csv {FAST} --fm-order 4", "--fm-order must be", "2",
     f"fit events.csv {FAST} --fm-order 2"),
    (f"fit events.csv {FAST} --device gpu", "not 'gpu'", "cuda",
     "fit events.csv --dry-run --device cuda"),
    (f"fit events.csv {FAST} --metric ndgc@10", "unknown metric 'ndgc'", "ndcg",
     f"fit events.csv {FAST} --metric ndcg@10"),
    ("fit events.csv -q --epochs ten", "'--epochs': it must be a whole number", "--help",
     "fit --help"),
    (f"fit events.csv {FAST} --validation 20%", "'--validation': it must be a number", "--help",
     "fit --help"),
    # Questions to a model
    ("recommend modle.fmpair", "cannot read model 'modle.fmpair'", "model.fmpair",
     "recommend model.fmpair"),
    ("recommend events.csv", "not an fmpair model", "fit",
     f"fit events.csv {FAST} -o fitted.fmpair && recommend fitted.fmpair"),
    ("recommend model.fmpair --user user-0001", "unknown user 'user-0001'", "user-001",
     "recommend model.fmpair --user user-001"),
    ("recommend model.fmpair --context daytme=night", "unknown context 'daytme'", "daytime",
     "recommend model.fmpair --context daytime=night"),
    ("recommend model.fmpair --context daytime=nigth", "unknown value of context", "night",
     "recommend model.fmpair --context daytime=night"),
    ("recommend model.fmpair --context night", "--context takes", "=",
     "recommend model.fmpair --context daytime=night"),
    ("recommend model.fmpair --time 2024-05-01", "does not use the time",
     "--field timestamp=time", f"fit timed.csv {FAST} --field timestamp=time -o timed.fmpair && "
     "recommend timed.fmpair --time 2024-05-01"),
    ("recommend model.fmpair -n 0", "-n must be a whole number of at least", "1",
     "recommend model.fmpair -n 1"),
    ("recommend model.fmpair --users-file names.csv", "names.csv has no user column", "user",
     "recommend model.fmpair --users-file user.csv"),
    ("recommend model.fmpair --users-file latin_users.csv", "not utf-8 text",
     "--encoding latin-1",
     "recommend model.fmpair --users-file latin_users.csv --encoding latin-1"),
    ("recommend model.fmpair --users-file semicolon_users.csv --separator ,", "a single column",
     "--separator ';'",
     "recommend model.fmpair --users-file semicolon_users.csv --separator ';'"),
    ("recommend model.fmpair --all --user user-001", "cannot be combined",
     "--user", "recommend model.fmpair --user user-001"),
    ("recommend model.fmpair --history book-0001 --unknown error", "unknown item 'book-0001'",
     "book-001", "recommend model.fmpair --history book-001 --unknown error"),
    ("recommend model.fmpair -o lists.abc", "cannot infer the format of lists.abc", ".csv",
     "recommend model.fmpair -o lists.csv"),
    ("similar model.fmpair", "give either", "--item", "similar model.fmpair --item book-001"),
    ("fold-in model.fmpair late.csv -o next.fmpair", "none of the 2 events has an item", "update",
     "update model.fmpair late.csv -o next.fmpair --epochs 1"),
    # Judging and experiments
    ("evaluate model.fmpair --train events.csv", "give --train EVENTS and", "--test",
     f"evaluate model.fmpair {PARTS} --metric ndcg@10"),
    (f"evaluate model.fmpair {PARTS} --metric ndgc@10", "unknown metric 'ndgc'", "ndcg",
     f"evaluate model.fmpair {PARTS} --metric ndcg@10"),
    (f"evaluate model.fmpair {PARTS} --protocol ful", "unknown protocol 'ful'", "full",
     f"evaluate model.fmpair {PARTS} --protocol full"),
    (f"evaluate latin_lists.csv {PARTS}", "latin_lists.csv is not utf-8 text",
     "--encoding latin-1", f"evaluate latin_lists.csv {PARTS} --encoding latin-1"),
    ("validate a.yaml models.0=popularty", "unknown model 'popularty'", "popularity",
     "validate a.yaml models.0=popularity"),
    ("validate a.yaml metrics=[ndgc@10]", "unknown metric 'ndgc'", "ndcg",
     "validate a.yaml metrics=[ndcg@10]"),
    ("validate b.yaml", "there is no file b.yaml", "a.yaml", "validate a.yaml"),
    ("init latin.csv", "not utf-8 text", "--encoding latin-1",
     "init latin.csv --encoding latin-1 && validate experiment.yaml"),
    ("init ragged.csv", "line 3 has 2 columns", "--ragged drop",
     "init ragged.csv --ragged drop && validate experiment.yaml"),
    ("init headless.csv", "has numbers, not column names", "--column user --column item",
     "init headless.csv --no-header --column user --column item && validate experiment.yaml"),
    ("init events.csv -o a.yaml", "a.yaml exists already", "--force",
     "init events.csv -o a.yaml --force"),
]  # fmt: skip


@pytest.fixture
def desk(files, tmp_path, monkeypatch):
    """A folder with the files that the rows speak of."""
    for name in ("events.csv", "model.fmpair"):
        shutil.copy(files / name, tmp_path / name)
    for name, text in FILES.items():
        latin = name.startswith("latin")
        (tmp_path / name).write_text(text, "latin-1" if latin else "utf-8")
    monkeypatch.chdir(tmp_path)


def test_there_are_thirty_mistakes_and_more():
    assert len({mistake for mistake, *_ in MISTAKES}) >= 30


@pytest.mark.parametrize(("mistake", "wrong", "right", "typed"), MISTAKES, ids=lambda row: row[:50])
def test_a_line_names_what_is_wrong_and_what_can_be_typed(
    fmpair, desk, mistake, wrong, right, typed
):
    done = fmpair(*shlex.split(mistake))
    assert done.code in (1, 2) and done.out == "", done.out
    said = done.err.splitlines()[-1]
    assert said.startswith("error: ") and "\ue000" not in said
    assert wrong in said and right in said.replace(wrong, "", 1) and right in typed, said
    for line in typed.split(" && "):
        program, *arguments = shlex.split(line)
        if program == "mkdir":
            Path(arguments[0]).mkdir()
        else:
            done = fmpair(program, *arguments)
            assert done.code == 0, done.err


def test_the_name_of_a_public_set_is_found_too(fmpair):
    said = "error: there is no file ml-100kk. Did you mean the public set 'ml-100k'?\n"
    assert fmpair("fit", "ml-100kk").err == said


@pytest.mark.parametrize("address", ["https://example.org/events.csv", "s3://bucket/events.csv"])
def test_an_address_is_not_taken_for_a_folder_that_is_missing(fmpair, address):
    said = f"error: {address} is an address, not a file: download it first\n"
    assert fmpair("fit", address).err == said


def test_a_flag_that_resembles_none_gets_no_wrong_hint(fmpair, desk):
    said = "error: unknown option '--model'; see fmpair fit --help\n"
    assert fmpair("fit", "events.csv", "--model", "als").err == said
