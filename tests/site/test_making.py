"""The extensions of the site: generated parts, redirected links, build failures."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("myst_nb")
ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "docs" / "site"))

import docstrings  # noqa: E402
import names  # noqa: E402
import pages  # noqa: E402


def test_an_unknown_name_of_fmpair_is_not_resolved():
    def found(name):
        return names.shown(None, None, {"refdomain": "py", "reftarget": name}, "text")

    assert found("fmpair.arrays.Rows") == "text"
    assert found("fmpair.arrays.Rwos") is None and found("fmpair.nowhere.Rows") is None


def test_links_to_files_outside_docs_lead_to_their_pages():
    docs = ROOT / "docs"
    assert pages.turned(docs, "../benchmarks/README.md") == "explanation/speed.md"
    assert (
        pages.turned(docs / "models", "../../ARCHITECTURE.md") == "../explanation/architecture.md"
    )
    assert pages.turned(docs, "data.md") == "data.md"


def test_arguments_of_a_docstring_become_fields():
    text = "The best.\n\nn: how many. who: the `user`.\nGives a frame."
    assert [line for line in docstrings.rewritten(text, ["n", "who"]) if line] == [
        "The best.",
        "Gives a frame.",
        ":param n: How many.",
        ":param who: The \\ ``user``\\ .",
    ]


@pytest.mark.parametrize("part", pages.GENERATED)
def test_every_generated_part_is_on_one_page(part):
    asking = (page.read_text("utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    assert sum(f"<!-- generated: {part} -->" in text for text in asking) == 1
    assert len(pages.GENERATED[part]()) > 1000


@pytest.mark.slow
def test_a_broken_link_fails_the_build(tmp_path):
    wrong = ("[to](nowhere.md)", "[to](#nowhere)", "{py:func}`fmpair.raed`")
    (tmp_path / "index.md").write_text("# A page\n\n" + "\n\n".join(wrong))
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "dummy"]
    places = ["-c", "docs/site", tmp_path, tmp_path / "out"]
    done = subprocess.run([*command, *places], cwd=ROOT, capture_output=True, text=True)
    assert (
        done.returncode == 1 and done.stderr.count("index.md") == done.stderr.count("WARNING") == 3
    )
