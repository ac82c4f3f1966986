"""The files of deploy/: what they start is a command of this fmpair, what they copy is there."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from fmpair.cli.application import command
from fmpair.events.store import POSTGRES
from fmpair.serve.settings import ServiceSettings

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
COMPOSE = YAML(typ="safe").load((DEPLOY / "compose.yaml").read_text("utf-8"))
UNIT = (DEPLOY / "fmpair.service").read_text("utf-8")


def steps(name):
    """The arguments of every step of the Dockerfile of a kind."""
    return re.findall(rf"^{name} (.*)$", DOCKERFILE, re.MULTILINE)


def settings(arguments):
    """What `fmpair serve` is told by a command line; a flag that it does not have is an error."""
    verbs = command()
    name, verb, rest = verbs.resolve_command(verbs.make_context("fmpair", ["--"]), arguments)
    assert name == "serve"
    given = verb.make_context(name, rest).params
    return ServiceSettings(**{**given, "model": Path(given["model"])})


def exec_start():
    return shlex.split(re.search(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)[1])


@pytest.mark.parametrize(
    "arguments",
    [
        json.loads(steps("CMD")[-1]),
        COMPOSE["services"]["fmpair"]["command"],
        exec_start()[1:],
    ],
    ids=["Dockerfile", "compose.yaml", "fmpair.service"],
)
def test_what_is_started_is_a_service_with_flags_that_there_are(arguments):
    found = settings(list(arguments))
    assert found.watch and found.model.name == "model.fmpair"
    assert found.port == 8000


def test_the_image_is_made_of_files_that_are_there_and_are_sent_to_the_builder():
    kept = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().split("\n")
            if line.startswith("!")}  # fmt: skip
    sources = {name for step in steps("COPY") if "--from" not in step for name in step.split()[:-1]}
    assert sources == kept
    assert [name for name in sources if not (ROOT / name).exists()] == []
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = re.search(r"/fmpair\[(.*?)\]", DOCKERFILE)[1].split(",")
    assert set(extras) <= set(project["optional-dependencies"])
    assert {project["readme"], *project["license-files"]} <= sources


def test_nothing_in_the_image_runs_as_root():
    assert steps("USER") == ["fmpair"]
    assert f"EXPOSE {ServiceSettings(Path('model.fmpair')).port}" in DOCKERFILE


def test_the_service_of_the_compose_file_waits_for_a_database_that_keeps_its_events():
    services = COMPOSE["services"]
    own, database = services["fmpair"], services["postgres"]
    url = settings(list(own["command"])).events
    assert url.startswith(POSTGRES)
    user, host, name = re.fullmatch(r"\w+://(\w+)@(\w+)/(\w+)", url).groups()
    assert host in services and own["depends_on"][host] == {"condition": "service_healthy"}
    given = database["environment"]
    assert (user, name) == (given["POSTGRES_USER"], given["POSTGRES_DB"])
    assert own["environment"]["PGPASSWORD"] == given["POSTGRES_PASSWORD"]
    assert database["volumes"][0].partition(":")[0] in COMPOSE["volumes"]
    assert set(own["secrets"]) <= set(COMPOSE["secrets"])


def test_ports_are_open_to_this_machine_only():
    ports = COMPOSE["services"]["fmpair"]["ports"]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert "ports" not in COMPOSE["services"]["postgres"]
    assert settings(exec_start()[1:]).host == "127.0.0.1"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    own = tmp_path / "fmpair.service"
    own.write_text(UNIT.replace(exec_start()[0], sys.executable))
    checked = subprocess.run(
        ["systemd-analyze", "verify", own], capture_output=True, text=True, timeout=60
    )
    about = [line for line in checked.stderr.splitlines() if "fmpair.service" in line]
    assert (checked.returncode, about) == (0, [])
