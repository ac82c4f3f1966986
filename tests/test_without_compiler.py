"""Saved models answer where nothing can be compiled, and as they do elsewhere."""

import ctypes
import json
import os
import subprocess
import sys

import pytest

from fmpair.data import Dataset
from fmpair.models import catalog
from fmpair.testing import day_and_night

FOREIGN = catalog.FAMILIES["other library"]
OURS = [kind for kind in catalog.MODELS if kind not in FOREIGN]
QUICK = {"factors": 4, "epochs": 1, "k": 5, "blocks": 1}
# A contextual model's scores depend on the situation; the others learn from the ids alone.
ASK = """
import json, sys
from fmpair import errors, load

def ask(path):
    model, answers = load(path), []
    answers.append(model.recommend(["u1", "u2"], 7, exclude_seen=True).rows())
    answers.append(model.score({"user": ["u1", "u2"], "item": [3, 4]})["score"].to_list())
    for question in (lambda: model.similar_items(3, 5), lambda: model.explain("u1", 3)):
        try:
            answers.append(question().rows())
        except errors.OptionError as error:
            answers.append(str(error))
    return answers

print(json.dumps([ask(path) for path in sys.argv[1:]]))
"""
NO_NUMBA = "import sys; sys.modules['numba'] = None\n"
# As systemd's MemoryDenyWriteExecute: no page that was written may become executable.
NO_EXECUTABLE_MEMORY = "import ctypes; ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)\n"


def process(code, *arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def recipe(kind):
    known = catalog.options(kind)["option"].to_list()
    return catalog.find(kind)(**{name: value for name, value in QUICK.items() if name in known})


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A file of every model."""
    folder = tmp_path_factory.mktemp("models")
    data = Dataset.from_frame(day_and_night().frame(), order="rows")
    kinds = {"item": data.items.ids, "kind": [f"k{n % 3}" for n in range(len(data.items))]}
    for kind in OURS:
        described = data.with_items(kinds) if kind.startswith("content") else data
        recipe(kind).fit(described).save(folder / f"{kind}.fmpair")
    return folder


def rounded(answers):
    """Answers with numbers cut to what two ways of adding up may agree on."""
    if isinstance(answers, float):
        return round(answers, 4)
    return [rounded(part) for part in answers] if isinstance(answers, list) else answers


def test_every_model_answers_as_it_does_with_a_compiler(saved):
    paths = sorted(saved.iterdir())
    with_one, said = process(ASK, *paths)
    without, complaint = process(NO_NUMBA + ASK, *paths)
    assert said == "" and complaint.count("\n") == 1
    assert complaint.startswith("nothing can be compiled: numba cannot be imported")
    for path, ours, theirs in zip(paths, without, with_one, strict=True):
        assert rounded(ours) == rounded(theirs), path.stem


def can_forbid():
    """Whether this system can be asked to forbid executable memory: Linux since 6.3."""
    return sys.platform == "linux" and ctypes.CDLL(None).prctl(66, 0, 0, 0, 0) >= 0


def test_a_model_answers_where_memory_cannot_be_made_executable(saved):
    if not can_forbid():
        pytest.skip("this system cannot forbid executable memory")
    path = saved / "fm-pair.fmpair"
    # polars would look into the processor by code of its own, which is forbidden too
    answers, complaint = process(NO_EXECUTABLE_MEMORY + ASK, path, POLARS_SKIP_CPU_CHECK="1")
    assert "cannot allocate executable memory" in complaint
    assert rounded(answers) == rounded(process(ASK, path)[0])


EVALUATE = """
import json
from fmpair import Popularity, Protocol, evaluate
from fmpair.testing import day_and_night

data, found = day_and_night(), []
for candidates, metric in (("all", "diversity@5"), ("uniform", "ndcg@5"), ("popularity", "ndcg@5")):
    protocol = Protocol(candidates=candidates, n=5, seen="none")
    found.append(evaluate(Popularity().fit(data), data, data, protocol, [metric]).means)
print(json.dumps(found))
"""


def test_what_is_learned_elsewhere_can_be_judged():
    assert process(NO_NUMBA + EVALUATE)[0] == process(EVALUATE)[0]


REFUSED = """
import json
from fmpair import errors
from fmpair.models import catalog
from fmpair.testing import two_tastes

said = []
for kind in KINDS:
    try:
        catalog.find(kind)().fit(two_tastes())
    except errors.TrainingError as error:
        said.append(str(error))
print(json.dumps(said))
"""


@pytest.mark.parametrize("kinds", [["fm-pair", "implicit-als", "item-knn", "fm"]])
def test_what_must_be_compiled_to_learn_says_so_in_one_line(kinds):
    code = REFUSED.replace("KINDS", repr(kinds))
    said, _ = process(code, NUMBA_DISABLE_JIT="1")
    assert len(said) == len(kinds)
    for line in said:
        assert line.startswith("training needs Numba's compiler, which does not work here: ")
        assert "NUMBA_DISABLE_JIT is set" in line and "\n" not in line


def test_what_need_not_be_compiled_learns():
    code = REFUSED.replace("KINDS", "['popularity', 'random']")
    assert process(NO_NUMBA + code)[0] == []
