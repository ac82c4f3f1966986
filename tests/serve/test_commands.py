"""The commands of docs/serving.md run as they are printed, against a service that they start."""

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

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
FENCE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "localhost:8000/"


def test_the_commands_of_the_page_about_serving_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("onnx")
    pytest.importorskip("usearch")
    address, answers = None, []
    with ExitStack() as running:
        for line in "".join(FENCE.findall(PAGE.read_text("utf-8"))).splitlines():
            program, *arguments = shlex.split(line)
            if arguments[:1] == ["serve"]:
                address = running.enter_context(service(arguments[1], *arguments[2:]))
            elif program == "fmpair":
                assert run(arguments) == 0, line
            else:
                command = line.replace("curl -s", "curl -sSf").replace(ADDRESS, address or ADDRESS)
                answers.append(subprocess.run(command, shell=True, check=True, text=True,
                                              stdout=subprocess.PIPE).stdout)  # fmt: skip
    lists = [answer for answer in answers if "book-001" in answer]
    assert (
        len(lists) == 1 and '"taken":1' in answers[2]
    )  # once it was chosen, it is not shown again
    assert {"today.parquet", "model.fmpair", "ranking.onnx"} <= {p.name for p in tmp_path.iterdir()}
