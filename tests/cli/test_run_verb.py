import json
import sys

import pytest

pytestmark = pytest.mark.slow

FILE = """\
data: {generate: {users: 20, items: 15, events: 500}}
models: [popularity, {kind: fm-pair, factors: 2, epochs: 2}]
metrics: [ndcg@10]
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.yaml"
    path.write_text(FILE)
    return path


def test_run_shows_the_table_and_ends_with_the_path_of_the_report(fmpair, file):
    done = fmpair("run", "tiny.yaml")
    assert done.code == 0
    assert "popularity" in done.out and "fm-pair" in done.out
    assert done.out.splitlines()[-1] == "runs/tiny/report.html"
    assert (file.parent / "runs" / "tiny" / "report.html").stat().st_size > 1000
    assert [line[:7] for line in done.err.splitlines()] == ["1 of 2:", "2 of 2:", "writing"]


def test_the_same_command_again_has_nothing_to_do_but_the_report(fmpair, file):
    first = fmpair("run", "tiny.yaml", "--quiet")
    again = fmpair("run", "tiny.yaml")
    assert first.err == "" and again.err == "writing the report ...\n"
    assert first.out == again.out


def test_values_on_the_command_line_win_over_the_files(fmpair, file, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/bin/fmpair", "run", "tiny.yaml"])
    fmpair("run", "tiny.yaml", "models.1.factors=3", "seeds=[1, 2]", "-f", "elsewhere", "-q")
    told = json.loads((file.parent / "elsewhere" / "manifest.json").read_text())
    assert told["experiment"]["models"][1]["options"]["factors"] == 3
    assert told["seeds"] == [1, 2]
    assert told["command"] == "fmpair run tiny.yaml"


def test_an_ablation_needs_no_change_of_the_file(fmpair, file):
    done = fmpair("run", "tiny.yaml", "models.1.ablation=without", "-q")
    assert done.code == 0
    assert "Which fields help fm-pair: NDCG@10" in done.out and "all fields" in done.out


def test_recommend_takes_the_run_folder_for_its_winner(fmpair, file):
    fmpair("run", "tiny.yaml", "-q")
    ranked = fmpair("recommend", "runs/tiny", "--user", "user-001", "-n", "3")
    assert ranked.code == 0 and len(ranked.out.splitlines()) == 4


def test_a_folder_without_a_model_says_what_to_do(fmpair, file):
    fmpair("run", "tiny.yaml", "output.refit=false", "-q")
    answer = fmpair("recommend", "runs/tiny", "--user", "user-001")
    assert answer.code == 1 and "holds no model" in answer.err


def test_a_failed_cell_gives_exit_code_1_after_all_others_are_done(fmpair, file):
    file.write_text(FILE.replace("epochs: 2", "epochs: 2, context: [wether]"))
    done = fmpair("run", "tiny.yaml", "-q")
    assert done.code == 1
    assert done.err.splitlines()[-1] == "1 of 2 cells failed; the same command tries them again"
    assert done.out.splitlines()[-1] == "runs/tiny/report.html"


def test_a_mistake_in_the_file_is_said_before_anything_is_made(fmpair, file):
    file.write_text(FILE.replace("factors", "factor"))
    done = fmpair("run", "tiny.yaml")
    assert done.code == 1 and "'factors'" in done.err
    assert not (file.parent / "runs").exists()


def test_estimate_says_what_a_run_will_take_and_makes_nothing(fmpair, file):
    said = fmpair("estimate", "tiny.yaml", "seeds=[0, 1]")
    assert said.code == 0
    assert "4 cells" in said.out.splitlines()[-1] and "of memory" in said.out.splitlines()[-1]
    assert "popularity" in said.out and not (file.parent / "runs").exists()


def test_an_interrupt_is_one_line_and_exit_code_130(fmpair, file, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("fmpair.experiment.work.evaluate", interrupted)
    done = fmpair("run", "tiny.yaml", "-q")
    assert done.code == 130
    assert done.err == "stopped: 0 of 2 cells are done; the same command resumes from there\n"


OWN = """\
from fmpair import Popularity

class Model:
    def __init__(self, size=1):
        self.size = size

    def fit(self, data):
        return Popularity().fit(data)
"""


def test_code_beside_the_file_runs_only_where_it_is_allowed(fmpair, file):
    (file.parent / "own_model_of_verbs.py").write_text(OWN)
    own = "models.0={kind: 'own_model_of_verbs:Model', size: 3}"
    for verb in ("run", "estimate"):
        refused = fmpair(verb, "tiny.yaml", own)
        assert refused.code == 1 and "--allow-code" in refused.err
    assert not (file.parent / "runs").exists()
    done = fmpair("run", "tiny.yaml", own, "--allow-code", "--workers", "2", "-q")
    assert done.code == 0, done.err
    assert "own_model_of_verbs:Model" in done.out


def test_a_run_goes_on_only_with_the_same_permission(fmpair, file):
    (file.parent / "own_model_again.py").write_text(OWN)
    own = "models.0={kind: 'own_model_again:Model'}"
    assert fmpair("run", "tiny.yaml", own, "--allow-code", "-q").code == 0
    kept = (file.parent / "runs" / "tiny" / "experiment.json").read_text()
    assert "own_model_again:Model" in kept and "allow_code" not in kept
    again = fmpair("run", "tiny.yaml", own, "-q")
    assert again.code == 1 and "allow_code=True" in again.err
    assert fmpair("report", "runs/tiny").code == 0, "a report runs nothing"
