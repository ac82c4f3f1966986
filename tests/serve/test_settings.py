"""ServiceSettings of a service, and the split of users between two models."""

import signal
import socket
import subprocess
import sys

import pytest

from fmpair.cli import run
from fmpair.errors import OptionError
from fmpair.serve import supervisor
from fmpair.serve.settings import CANDIDATE, CURRENT, Arms, ServiceSettings, read_keys, user_hash

USERS = [f"user-{number}" for number in range(20_000)]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "localhost", "::1"])
def test_this_machine_alone_needs_no_key(host):
    assert ServiceSettings("m", host=host).api_key_file is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "shop.example"])
def test_a_key_is_needed_beyond_this_machine(host, tmp_path):
    with pytest.raises(
        OptionError, match="is reachable from other machines: protect it with api_key_file"
    ):
        ServiceSettings("m", host=host)
    assert ServiceSettings("m", host=host, api_key_file=tmp_path / "keys")


def test_a_proxy_lets_others_in_so_it_needs_keys(tmp_path):
    with pytest.raises(OptionError, match="proxy lets other machines in: protect the service with"):
        ServiceSettings("m", proxy=True)
    assert ServiceSettings("m", proxy=True, api_key_file=tmp_path / "keys")


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
        ServiceSettings("m", **options)


def test_keys_are_lines_of_a_file(tmp_path):
    file = tmp_path / "keys"
    file.write_text("# of the shop\n0123456789abcdef\n\nanother-key-12345  \n")
    assert list(read_keys(file)) == [b"0123456789abcdef", b"another-key-12345"]
    assert read_keys(None) == {}


def test_words_after_a_key_say_what_it_is_for(tmp_path):
    file = tmp_path / "keys"
    file.write_text("0123456789abcdef\nof-the-shop-12345 ask  send\nof-the-night-1234 read\n")
    assert [sorted(purposes) for purposes in read_keys(file).values()] == [
        ["ask", "metrics", "read", "send"],
        ["ask", "send"],
        ["read"],
    ]
    file.write_text("0123456789abcdef everything\n")
    with pytest.raises(OptionError, match="unknown purpose 'everything' after a key; use ask, s"):
        read_keys(file)


@pytest.mark.parametrize(
    "content", ["", "# none\n", "short\n", "0123456789abcdef\nübergroßer-Schlüssel\n"]
)
def test_a_file_without_good_keys_is_refused(tmp_path, content):
    file = tmp_path / "keys"
    file.write_text(content)
    with pytest.raises(OptionError, match="must have keys, one per line, of at least 16"):
        read_keys(file)


def test_a_file_of_keys_that_is_not_there_is_named(tmp_path):
    with pytest.raises(OptionError, match=r"cannot read api_key_file=.*: No such file"):
        read_keys(tmp_path / "nothing")


def test_mistakes_on_the_command_line_are_told_in_one_line(model_file, tmp_path, capsys):
    before = signal.getsignal(signal.SIGINT)
    for arguments, said in (
        ([str(tmp_path / "nothing.fmpair")], "nothing.fmpair"),
        ([str(model_file), "--host", "0.0.0.0"], "--host 0.0.0.0 is reachable from other machines"),
        ([str(model_file), "--host", "0.0.0.0"], "--api-key-file FILE"),
        ([str(model_file), "--events", "mysql://x"], "--events takes sqlite:PATH"),
        ([str(model_file), "--share", "0.5"], "--share requires --candidate"),
    ):
        assert run(["serve", *arguments]) == 1
        written = capsys.readouterr().err
        assert said in written and written.count("\n") == 1 and written.startswith("error: ")
    assert signal.getsignal(signal.SIGINT) is before


def test_what_is_not_installed_is_named_with_the_command_that_installs_it(
    model_file, monkeypatch, capsys
):
    monkeypatch.setattr(supervisor, "REQUIRED", ("no_such_library",))
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


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_the_candidate_gets_its_share(share):
    found = sum(Arms(share).of(user) == CANDIDATE for user in USERS) / len(USERS)
    assert abs(found - share) < 4 * (share * (1 - share) / len(USERS)) ** 0.5


def test_a_larger_share_moves_nobody_back():
    small = {user for user in USERS if Arms(0.1).of(user) == CANDIDATE}
    large = {user for user in USERS if Arms(0.2).of(user) == CANDIDATE}
    assert small < large


def test_a_user_has_one_arm_in_every_process():
    code = "from fmpair.serve.settings import user_hash; print(user_hash('ann'), user_hash(7))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == [str(user_hash("ann")), str(user_hash(7))]


def test_an_id_is_one_user_as_text_and_as_a_number():
    assert user_hash(7) == user_hash("7") != user_hash("8")


def test_without_a_candidate_and_without_an_id_the_current_model_answers():
    assert {Arms().of(user) for user in USERS} == {CURRENT}
    assert Arms(1.0).of(None) == CURRENT
    assert {Arms(1.0).of(user) for user in USERS} == {CANDIDATE}


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), True])
def test_a_share_lies_between_nothing_and_all(share):
    with pytest.raises(OptionError, match="from 0 to 1"):
        Arms(share)
