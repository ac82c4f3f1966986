"""Commands of pages about serving run as they are printed, against a service that they start."""

import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from running import service

from fmpair.cli import run

pytest.importorskip("uvicorn")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "localhost:8000/"


@pytest.fixture(autouse=True)
def few_factors(monkeypatch):
    """No fit has more than eight factors: each number is kernels to compile."""
    monkeypatch.setattr("fmpair.training.defaults.FACTORS", 8)
    monkeypatch.setattr("fmpair.training.small_fits.FACTORS", 8)


def answers_of(page):
    """What the programs print that are no fmpair; the commands of a page run in their order."""
    address, answers = None, []
    with ExitStack() as running:
        for line in "".join(FENCE.findall(page.read_text("utf-8"))).splitlines():
            program, *arguments = shlex.split(line)
            if arguments[:1] == ["serve"]:
                address = running.enter_context(service(arguments[1], *arguments[2:]))
            elif program == "fmpair":
                assert run(arguments) == 0, line
            else:
                command = line.replace("curl -s", "curl -sSf").replace(ADDRESS, address or ADDRESS)
                answers.append(subprocess.run(command, shell=True, check=True, text=True,
                                              stdout=subprocess.PIPE).stdout)  # fmt: skip
    return answers


def test_the_commands_of_the_page_about_serving_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("onnx")
    pytest.importorskip("usearch")
    answers = answers_of(DOCS / "serving.md")
    lists = [answer for answer in answers if "book-011" in answer]
    assert len(lists) == 1  # once it was chosen, it is not shown again
    [ids] = [json.loads(answer)["ids"] for answer in answers if '"ids"' in answer]
    assert len(ids) == 3 and all(one.startswith("film-0") for one in ids)
    taken = [json.loads(answer) for answer in answers if '"taken":1' in answer]
    assert [one.get("unknown") for one in taken] == [None, None, ["events[0].item"]]
    assert {"today.parquet", "model.fmpair", "ranking.onnx"} <= {p.name for p in tmp_path.iterdir()}


def test_a_log_becomes_a_service_as_the_tutorial_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = DOCS / "tutorials" / "service.md"
    [code] = re.findall(
        r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    exec(code, {})
    [table] = re.findall(
        r"^```output\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert run(["fit", "shop.csv", "--dry-run"]) == 0 and capsys.readouterr().out == table
    user, visitor, taken, _ = answers_of(page)
    assert [json.loads(answer)["items"][0]["rank"] for answer in (user, visitor)] == [1, 1]
    assert json.loads(taken)["taken"] == 1
    assert Path("runs/shop/report.html").exists() and not Path("next.fmpair").exists()


EACH = re.compile(r"^```(python|sh|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_a_shop_s_first_afternoon_goes_as_the_tutorial_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = EACH.findall((DOCS / "tutorials" / "shop.md").read_text("utf-8"))
    address, namespace, told = "", {}, io.StringIO()
    with ExitStack() as running:
        for kind, text in blocks:
            if kind == "output":
                assert told.getvalue().split("\n") == text.split("\n")
                continue
            told = io.StringIO()
            if kind == "python":
                with contextlib.redirect_stdout(told):
                    exec(text.replace("http://127.0.0.1:8000/", address), namespace)
                continue
            for line in text.splitlines():
                _, *arguments = shlex.split(line)
                if arguments[0] == "serve":
                    running.close()  # the service before it
                    address = running.enter_context(service(*arguments[1:]))
                    namespace["address"] = address
                    continue
                capsys.readouterr()
                assert run(arguments) == 0, line
                told.write(capsys.readouterr().out)
