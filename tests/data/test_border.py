"""Whatever a parser throws, a reader raises one of our errors, in one line."""

import struct
import zlib

import polars as pl
import pytest

from fmpair.data.formats.source import parse_errors
from fmpair.errors import ConfigError, DataError, OptionError

FOREIGN = [
    (ValueError("no number\nat all"), "no number"),
    (KeyError("user"), "KeyError: 'user'"),
    (IndexError("list index out of range"), "IndexError: list index out of range"),
    (EOFError(), "EOFError"),
    (zlib.error("Error -3 while decompressing"), "Error -3 while decompressing"),
    (struct.error("unpack requires 4 bytes"), "unpack requires 4 bytes"),
    (pl.exceptions.ComputeError("found more fields"), "found more fields"),
    (pl.exceptions.PanicException("index out of bounds"), "PanicException: index out of bounds"),
    (OverflowError("int too large"), "int too large"),
    (PermissionError(13, "Permission denied"), "Permission denied"),
    (RecursionError("maximum recursion depth"), "it is nested too deep"),
    (MemoryError(), "it does not fit into memory"),
    (UserWarning("odd text"), "odd text"),
]


@pytest.mark.parametrize(("error", "said"), FOREIGN, ids=lambda one: type(one).__name__)
def test_an_error_of_a_library_becomes_a_line_that_names_the_file(error, said):
    with pytest.raises(DataError) as caught, parse_errors("a.csv as libfm"):
        raise error
    assert str(caught.value) == f"cannot read a.csv as libfm: {said}"
    assert caught.value.__cause__ is error


def test_what_a_reader_says_itself_stays():
    with pytest.raises(OptionError, match=r"^say this$"), parse_errors("a.csv"):
        raise OptionError("say this")


def test_an_interrupt_is_no_mistake_of_the_file():
    with pytest.raises(KeyboardInterrupt), parse_errors("a.csv"):
        raise KeyboardInterrupt


def test_the_caller_chooses_the_kind_of_error():
    with (
        pytest.raises(ConfigError, match=r"cannot read a\.yaml: broken in two"),
        parse_errors("a.yaml", lambda line: ConfigError([line])),
    ):
        raise ValueError("broken in two")
