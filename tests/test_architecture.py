"""The rules of ARCHITECTURE.md, kept true."""

import ast
import subprocess
import sys
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "fmpair"
MODULES = sorted(PACKAGE.rglob("*.py"))

FILE_LINES = 450
FUNCTION_LINES = 40
KERNEL_LINES = 135  # a kernel that is cut up is slower and harder to read


def blocks():
    """The two blocks of the page's tree: the checkout's top level, and the package."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8").split("## The tree")[1]
    return text.split("```")[1].strip("\n"), text.split("```")[3].strip("\n")


def top_level():
    """{name: what it is for} of the checkout."""
    rows = (line.partition(" ") for line in blocks()[0].splitlines())
    return {name: text.strip() for name, _, text in rows}


def package():
    """{folder: (what it is for, the modules named under it)} of the package."""
    found = {}
    for line in blocks()[1].splitlines():
        if not line.startswith(" "):
            folder, _, text = line.partition(" ")
            found[folder] = (text.strip(), [])
        else:
            found[folder][1].extend(line.split())
    return found


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


def folders():
    """{folder, as the page writes it: its modules} of the package."""
    found = {}
    for module in MODULES:
        folder = module.parent.relative_to(PACKAGE).as_posix()
        names = found.setdefault("fmpair/" if folder == "." else f"{folder}/", [])
        names += [module.stem] if module.stem != "__init__" else []
    return {folder: sorted(names) for folder, names in found.items()}


def lines_of(function):
    """Lines of a function from its `def` on, without its decorators and docstring."""
    count = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is None:
        return count
    docstring = function.body[0]
    return count - (docstring.end_lineno - docstring.lineno + 1)


@cache
def parsed(module):
    return ast.parse(module.read_text("utf-8"))


def functions_of(module):
    nodes = ast.walk(parsed(module))
    return [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(text, known):
    """The modules of the package that a source imports anywhere: on top, in functions, for types.

    A string that names a module (`fmpair.a.b`, or `fmpair.a.b:Name`) counts too: it is there to be
    imported lazily. The name of the package alone is that of the logger.
    """
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in known else node.module for name in names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {node.value.partition(":")[0]} - {PACKAGE.name}
    return found & known


def circle_in(imports):
    """The modules that need themselves by way of others, or None."""

    def needed_by(module):
        seen, left = set(), [module]
        while left:
            new = imports[left.pop()] - seen
            seen |= new
            left += new
        return seen

    return sorted(module for module in imports if module in needed_by(module)) or None


def test_no_module_needs_itself_by_way_of_others():
    known = {module_name(path) for path in MODULES}
    sources = {module_name(path): path.read_text("utf-8") for path in MODULES}
    imports = {name: imports_of(text, known) - {name} for name, text in sources.items()}
    assert circle_in(imports) is None


def test_a_circle_is_found():
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c"]
    assert circle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def test_a_module_named_by_a_string_counts_as_imported():
    known = {"fmpair", "fmpair.a", "fmpair.b", "fmpair.c"}
    text = 'from fmpair import a\nHOMES = {"x": "fmpair.b"}\nC = "fmpair.c:D"\nLOG = get("fmpair")'
    assert imports_of(text, known) == {"fmpair.a", "fmpair.b", "fmpair.c"}


def test_the_top_level_is_what_the_page_says():
    there = {name_of(p) for p in ROOT.iterdir() if not ignored(p) and holds_a_file(p)}
    assert {name.replace("src/fmpair/", "src/") for name in top_level()} == there


def test_every_folder_and_every_module_of_the_package_stands_on_the_page():
    assert {folder: sorted(names) for folder, (_, names) in package().items()} == folders()


def test_the_page_says_what_every_folder_is_for():
    texts = {**top_level(), **{folder: text for folder, (text, _) in package().items()}}
    assert [name for name, text in texts.items() if not text] == []


def says_what_it_is_for(module):
    text = ast.get_docstring(parsed(module))
    return bool(text) and text.splitlines()[0].endswith((".", ":"))


def test_the_first_line_of_a_module_says_what_it_is_for():
    assert [name_of(module) for module in MODULES if not says_what_it_is_for(module)] == []


def test_every_folder_of_the_package_is_seen_by_the_check_of_layers():
    folders = {module.parent for module in MODULES}  # import-linter skips one without __init__.py
    assert [name_of(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_a_file_can_be_read_at_a_sitting():
    lines = {name_of(module): len(module.read_text("utf-8").splitlines()) for module in MODULES}
    assert {name: count for name, count in lines.items() if count > FILE_LINES} == {}


def test_a_function_fits_a_screen():
    long = {}
    for module in MODULES:
        compiled = {"engine", "solvers", "ranking"} & set(module.relative_to(PACKAGE).parts)
        most = KERNEL_LINES if compiled else FUNCTION_LINES
        lengths = {function.name: lines_of(function) for function in functions_of(module)}
        long |= {f"{name_of(module)}: {name}": n for name, n in lengths.items() if n > most}
    assert long == {}


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").exists()


@pytest.mark.parametrize("code", ["import fmpair", "from fmpair.models import *"])
def test_no_compiler_is_loaded_before_something_is_learned(code):
    code = f"import sys; {code}; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_no_public_class_name_stands_twice():
    names = [
        node.name
        for module in MODULES
        for node in parsed(module).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert {name for name in names if names.count(name) > 1} == set()
