"""What a service may be started with, and what is said of the rest."""

import signal
import socket

import pytest

from fmpair.cli import run
from fmpair.errors import OptionError
from fmpair.serve import supervisor
from fmpair.serve.settings import Settings, keys_of


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "localhost", "::1"])
def test_this_machine_alone_needs_no_key(host):
    assert Settings("m", host=host).api_key_file is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "shop.example"])
def test_a_key_is_needed_beyond_this_machine(host, tmp_path):
    with pytest.raises(OptionError, match="can be reached by others: give api_key_file"):
        Settings("m", host=host)
    assert Settings("m", host=host, api_key_file=tmp_path / "keys")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workers": 0}, "workers must be a whole number of at least 1"),
        ({"port": 70_000}, "port must be at most 65535"),
        ({"rate": -1}, "rate must be a number of at least 0"),
    ],
)
def test_wrong_options_are_refused(options, said):
    with pytest.raises(OptionError, match=said):
        Settings("m", **options)


def test_keys_are_lines_of_a_file(tmp_path):
    file = tmp_path / "keys"
    file.write_text("# of the shop\n0123456789abcdef\n\nanother-key-12345  \n")
    assert keys_of(file) == (b"0123456789abcdef", b"another-key-12345")
    assert keys_of(None) == ()


@pytest.mark.parametrize(
    "content", ["", "# none\n", "short\n", "0123456789abcdef\nübergroßer-Schlüssel\n"]
)
def test_a_file_without_good_keys_is_refused(tmp_path, content):
    file = tmp_path / "keys"
    file.write_text(content)
    with pytest.raises(OptionError, match="must hold keys, one a line, of at least 16"):
        keys_of(file)


def test_a_file_of_keys_that_is_not_there_is_named(tmp_path):
    with pytest.raises(OptionError, match="cannot be read: No such file"):
        keys_of(tmp_path / "nothing")


def test_mistakes_on_the_command_line_are_told_in_one_line(model_file, tmp_path, capsys):
    for arguments, said in (
        ([str(tmp_path / "nothing.fmpair")], "nothing.fmpair"),
        ([str(model_file), "--host", "0.0.0.0"], "--host 0.0.0.0 can be reached by others: give"),
        ([str(model_file), "--host", "0.0.0.0"], "--api-key-file FILE"),
        ([str(model_file), "--events", "mysql://x"], "--events takes sqlite:PATH"),
        ([str(model_file), "--share", "0.5"], "name it by --candidate FILE"),
    ):
        assert run(["serve", *arguments]) == 1
        written = capsys.readouterr().err
        assert said in written and written.count("\n") == 1 and written.startswith("error: ")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_is_not_installed_is_named_with_the_command_that_installs_it(
    model_file, monkeypatch, capsys
):
    monkeypatch.setattr(supervisor, "NEEDED", ("no_such_library",))
    assert run(["serve", str(model_file)]) == 1
    assert "is not installed: pip install 'fmpair[serve]'" in capsys.readouterr().err


def test_a_port_that_is_taken_is_told(model_file, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run(["serve", str(model_file), "--port", str(port)]) == 1
    said = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1 port {port}" in said and "--port 0" in said
