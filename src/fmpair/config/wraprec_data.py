"""WrapRec's data readers as the section `data` of an experiment file."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from fmpair.config.wraprec import Attributes, Notes, WrapRec, class_name, listed, note_lost
from fmpair.data.delimited import guess_separator
from fmpair.data.source import read_bytes, read_text

TYPES = {"md": "multi-discrete", "r": "real", "b": "binary", "n": "ignored"}
TABLES = {"userattributes": "users", "itemattributes": "items"}
FEEDBACK = ("ratings", "posfeedback")
OTHER_ENCODING = "latin-1"  # of files that are not UTF-8; any byte is a character of it


def data_of(file: WrapRec, readers: list[Attributes], static: bool, notes: Notes) -> dict[str, Any]:
    """The section `data` of all readers of a container; static: its parts are given."""
    data: dict[str, Any] = {}
    for reader in readers:
        note_lost("reader", reader, notes)
        if class_name(reader.get("class", "CsvReader")) != "CsvReader":
            notes.append(f"reader {reader.get('id')}: class {class_name(reader['class'])} is read "
                         "as any delimited file")  # fmt: skip
        kind = reader.get("dataType", "").lower()
        if kind in TABLES:
            data[TABLES[kind]] = _table(file, reader, TABLES[kind].removesuffix("s"))
            continue
        if kind not in FEEDBACK:
            notes.append(f"reader {reader.get('id')}: dataType={kind} has no equivalent")
            continue
        part = reader.get("sliceType", "other").lower() if static else "path"
        if part in data:
            notes.append(f"reader {reader.get('id')}: a second file for {part}: join the files")
            continue
        data[part] = reader.get("path", "")
        for name, value in _columns(file, reader, kind == "ratings").items():
            if data.setdefault(name, value) != value:
                notes.append(f"reader {reader.get('id')}: another {name} than the first file's")
    return data


def moved(data: dict[str, Any], origin: Path, folder: Path, notes: Notes) -> dict[str, Any]:
    """Paths relative to the XML as paths relative to the folder of the new file."""
    out: dict[str, Any] = {
        name: path_of(data[name], origin, folder, notes)
        for name in ("path", "train", "test")
        if name in data
    }
    for name in TABLES.values():
        if name in data:
            path = path_of(data[name]["path"], origin, folder, notes)
            out[name] = {**data[name], "path": path}
    return {**out, **{name: value for name, value in data.items() if name not in out}}


def path_of(text: str, origin: Path, folder: Path, notes: Notes) -> str:
    """A path of the XML as one from the folder; a file that is not there is noted."""
    with suppress(OSError):  # such as a name that is too long
        if (origin / text).exists():
            return Path(os.path.relpath(origin / text, folder)).as_posix()
    notes.append(f"there is no file {text}: put the right path")
    return text


def _columns(file: WrapRec, reader: Attributes, rated: bool) -> dict[str, Any]:
    """How a file of feedback is read: the first columns are user, item and perhaps rating."""
    parts = ["user", "item", "rating"] if rated else ["user", "item"]
    options = _layout(file, reader)
    names = options.get("columns") or _header(file.path.parent / reader.get("path", ""), options)
    if names is None:  # no header anywhere: columns go by their number
        names = [f"column_{n}" for n in range(1, len(parts) + 1)]
    options |= dict(zip(parts, names))
    ignored = [n for n, kind in options.get("types", {}).items() if kind == "ignored"]
    options["context"] = [name for name in names[len(parts) :] if name not in ignored]
    return options


def _layout(file: WrapRec, reader: Attributes) -> dict[str, Any]:
    """Separator, encoding, names and types of a file."""
    headed = reader.get("hasHeader", "true").lower() != "false"
    options: dict[str, Any] = {"separator": reader.get("delimiter", ",").replace("\\t", "\t")}
    if not headed:
        options["header"] = False
    if not _is_utf8(file.path.parent / reader.get("path", "")):
        options["encoding"] = OTHER_ENCODING
    given = [part.partition(":") for part in listed(reader.get("header", ""))]
    types = {name: TYPES[kind] for name, _, kind in given if kind in TYPES}
    if given:
        options["columns"] = [name for name, _, _ in given]
    if types:
        options |= {"format": "wraprec", "types": types}
    return options


def _table(file: WrapRec, reader: Attributes, role: str) -> dict[str, Any]:
    """A file of attributes, whose first column is the id, whatever its name."""
    options = _layout(file, reader)
    if "columns" in options:
        options["columns"] = [role, *options["columns"][1:]]
    return {"path": reader.get("path", ""), **options}


def _is_utf8(path: Path) -> bool:
    """Whether a file is UTF-8 text, as it is taken to be where it is not there."""
    if not _is_there(path):
        return True
    try:
        read_bytes(path).decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_there(path: Path) -> bool:
    with suppress(OSError):  # such as a name that is too long
        return path.is_file()
    return False


def _header(path: Path, options: dict[str, Any]) -> list[str] | None:
    """The names in the first line of a file that has them and is there."""
    if not options.get("header", True) or not _is_there(path):
        return None
    first = read_text(path, options.get("encoding", "utf-8")).split("\n", 1)[0].strip()
    return [name.strip() for name in first.split(guess_separator(first) or ",")]
