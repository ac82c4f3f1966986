"""The rules of ARCHITECTURE.md, kept true."""

import ast
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "fmpair"
MODULES = sorted(PACKAGE.rglob("*.py"))

FILE_LINES = 350
FUNCTION_LINES = 40
KERNEL_LINES = 120  # a kernel that is cut up is slower and harder to read


def tree():
    """(path, description) of each line of the tree: an indented block, two spaces a level."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    block = text.split("## The tree")[1].split("```")[1]
    folders, lines = [], []
    for line in block.strip("\n").splitlines():
        name, _, description = line.strip().partition(" ")
        depth = (len(line) - len(line.lstrip())) // 2
        folders[depth:] = [name]
        lines.append(("".join(folders), description.strip()))
    return lines


def ignored(path):
    """Whether .gitignore (plain patterns only) leaves the path out."""
    patterns = [".git", *(ROOT / ".gitignore").read_text("utf-8").split()]
    parts = path.relative_to(ROOT).parts
    return any(fnmatch(part, pattern.strip("/")) for part in parts for pattern in patterns)


def holds_a_file(path):
    """Whether a checkout would have the path: git keeps no empty folders."""
    return path.is_file() or any(p.is_file() and not ignored(p) for p in path.rglob("*"))


def name_of(path):
    return path.relative_to(ROOT).as_posix() + ("/" if path.is_dir() else "")


def entries():
    """What must have a line: the top level, and every module that is not empty."""
    top = [p for p in ROOT.iterdir() if not ignored(p) and holds_a_file(p)]
    return {name_of(path) for path in [*top, *(m for m in MODULES if m.stat().st_size)]}


def lines_of(function):
    """Lines of a function from its `def` on, without its decorators and docstring."""
    count = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is None:
        return count
    docstring = function.body[0]
    return count - (docstring.end_lineno - docstring.lineno + 1)


def functions_of(module):
    parsed = ast.walk(ast.parse(module.read_text("utf-8")))
    return [node for node in parsed if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path, known):
    """The modules of the package that a file imports anywhere: on top, in functions, for types."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            whole = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {full if full in known else node.module for full in whole.values()}
    return found & known


def circle_in(imports):
    """The modules of an import circle, or None."""
    left = dict(imports)
    while left:
        free = [module for module, needed in left.items() if not needed & left.keys()]
        if not free:
            return sorted(left)  # all of them are in a circle, or need one that is
        for module in free:
            del left[module]
    return None


def test_no_module_needs_itself_by_way_of_others():
    known = {module_name(path) for path in MODULES}
    assert circle_in({module_name(path): imports_of(path, known) for path in MODULES}) is None


def test_a_circle_is_found():
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c", "d"]
    assert circle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def test_every_file_has_a_line_in_the_tree():
    assert sorted(entries() - {path for path, _ in tree()}) == []


def test_every_line_of_the_tree_names_something_that_exists():
    assert [path for path, _ in tree() if not holds_a_file(ROOT / path)] == []


def test_no_file_has_two_lines_in_the_tree():
    assert [path for path, times in Counter(path for path, _ in tree()).items() if times > 1] == []


def test_every_line_of_the_tree_says_what_the_file_is_for():
    assert [path for path, description in tree() if not description] == []


def test_every_folder_of_the_package_is_seen_by_the_check_of_layers():
    folders = {module.parent for module in MODULES}  # import-linter skips one without __init__.py
    assert [name_of(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_a_file_can_be_read_at_a_sitting(module):
    assert len(module.read_text("utf-8").splitlines()) <= FILE_LINES


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_a_function_fits_a_screen(module):
    compiled = {"engine", "solvers", "ranking"} & set(module.relative_to(PACKAGE).parts)
    most = KERNEL_LINES if compiled else FUNCTION_LINES
    lengths = {function.name: lines_of(function) for function in functions_of(module)}
    assert {name: lines for name, lines in lengths.items() if lines > most} == {}


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").exists()


@pytest.mark.parametrize("code", ["import fmpair", "from fmpair.models import *"])
def test_no_compiler_is_loaded_before_something_is_learned(code):
    code = f"import sys; {code}; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
