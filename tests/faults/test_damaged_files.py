"""Files of a run folder are damaged in every way; no wrong number and no traceback comes of it."""

import json
import shutil

import pytest
from small_run import cases, chance, saved
from tiny_run import MEASURED, same

from fmpair.cli import run as fmpair
from fmpair.config.read import read
from fmpair.errors import FmpairError
from fmpair.experiment.folder import results as read_results
from fmpair.experiment.run import run

WRONG = ([], {}, None, 7, "x", [1, {"a": None}], {"id": 5, "files": [], "error": None})


def cut(content, dice):
    return content[: dice.randrange(len(content) or 1)]


def flipped(content, dice):
    place = dice.randrange(len(content) or 1)
    bit = bytes([content[place] ^ (1 << dice.randrange(8))]) if content else b"\x00"
    return content[:place] + bit + content[place + 1 :]


def retyped(content, dice):
    """JSON in which one value, at any depth, is of another type; other files: JSON at all."""
    try:
        root = json.loads(content)
    except ValueError:
        return json.dumps(dice.choice(WRONG)).encode()
    place = root
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return json.dumps(dice.choice(WRONG)).encode()
        key = dice.choice(keys)
        if not isinstance(place[key], dict | list) or dice.random() < 0.3:
            place[key] = dice.choice([one for one in WRONG if type(one) is not type(place[key])])
            return json.dumps(root).encode()
        place = place[key]


def renumbered(content, dice):
    """JSON in which a number is another one."""
    text = content.decode("utf-8", "replace")
    digits = [n for n, letter in enumerate(text) if letter in "123456789"]
    if not digits:
        return b""
    place = dice.choice(digits)
    return (
        text[:place] + dice.choice("1234567".replace(text[place], "")) + text[place + 1 :]
    ).encode()


DAMAGES = {
    "cut": cut,
    "emptied": lambda content, dice: b"",
    "flipped": flipped,
    "retyped": retyped,
    "renumbered": renumbered,
    "noise": lambda content, dice: dice.randbytes(200),
    "replaced": lambda content, dice: json.dumps(dice.choice(WRONG)).encode(),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished run: its experiment, its folder, a copy of the folder, its results."""
    place = tmp_path_factory.mktemp("whole")
    asked = read(saved(place), ["output.models=true", f"output.folder={place / 'run'}"])
    results = run(asked)
    assert fmpair(["report", str(place / "run")]) == 0
    shutil.copytree(place / "run", place / "copy")
    return asked, place / "run", place / "copy", results


def damage(folder, dice):
    """Damage one file, or put a folder in its place, or take it away; what was done."""
    path = dice.choice(sorted(p for p in folder.rglob("*") if p.is_file()))
    how = dice.choice([*DAMAGES, "gone", "a folder"])
    content = path.read_bytes()
    if how in DAMAGES:
        path.write_bytes(DAMAGES[how](content, dice))
    else:
        path.unlink()
        if how == "a folder":
            path.mkdir()
    return f"{path.relative_to(folder)} {how}"


def shown_right(found, right):
    """Whether all that a folder shows was in the folder when it was whole."""
    for name in ("values", "views", "curves"):
        shown, known = (getattr(one, name).drop(MEASURED, strict=False) for one in (found, right))
        if len(shown.join(known, on=shown.columns, how="anti", nulls_equal=True)):
            return False
    good = found.trials.filter(found.trials["error"].is_null()).drop(MEASURED, strict=False)
    known = right.trials.drop(MEASURED, strict=False)
    return not len(good.join(known, on=good.columns, how="anti", nulls_equal=True))


def attempt(work):
    """What it gives; the message where it refuses, which has one line."""
    try:
        return work()
    except FmpairError as error:
        assert "\n" not in str(error) and str(error)
        return str(error)


@pytest.mark.faults
def test_no_damage_to_a_run_folder_shows_a_wrong_number(whole, capfd, monkeypatch):
    monkeypatch.setattr("fmpair.report.figures.available", lambda: False)  # drawing takes its time
    asked, folder, copy, right = whole
    question = ["recommend", str(folder), "--user", "user-001", "-o", "-"]
    capfd.readouterr()
    assert fmpair(question) == 0
    ranked = capfd.readouterr().out
    dice, told, mended = chance(), 0, 0
    for _ in range(cases(20)):
        shutil.rmtree(folder)
        shutil.copytree(copy, folder)
        what = damage(folder, dice)
        found = attempt(lambda: read_results(folder))
        assert isinstance(found, str) or shown_right(found, right), what
        code, out = fmpair(question), capfd.readouterr().out
        assert (code == 0 and out == ranked) or (code == 1 and not out), what
        code, err = fmpair(["report", str(folder)]), capfd.readouterr().err
        lines = 1 + code + ("not run yet" in err)  # one is about figures
        assert code in (0, 1) and err.count("\n") == lines, what
        again = attempt(lambda: run(asked))
        if isinstance(again, str):
            told += 1
            assert "cannot" in again, what
            continue
        mended += 1
        assert same(again, right), what
        assert (folder / "model.fmpair").read_bytes() == (copy / "model.fmpair").read_bytes(), what
    assert mended > told
    with capfd.disabled():
        print(f"{mended + told} files damaged: {mended} runs mended, {told} refused in one line")
