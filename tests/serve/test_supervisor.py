"""A service as people start it: processes that share a port."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import polars as pl
import pytest
from clicked import clicks
from running import service

from fmpair import Dataset, Popularity

pytestmark = pytest.mark.slow

ANN = "ann/3 <é🎈>"


def ask(address, path, body=None, **headers):
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{address}{path}", content, headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.fixture(scope="module")
def own_file(model_file, tmp_path_factory):
    """A copy, so that its events lie in a folder of its own."""
    path = tmp_path_factory.mktemp("own") / "model.fmpair"
    shutil.copy(model_file, path)
    return path


def test_several_workers_answer_and_count_together(own_file):
    with service(own_file, "--workers", "2") as address:
        for _ in range(30):
            status, body = ask(address, "v1/recommend", {"user": ANN, "n": 2})
            assert status == 200 and len(json.loads(body)["items"]) == 2
        counted = [
            line
            for line in ask(address, "metrics")[1].decode().splitlines()
            if line.startswith('fmpair_requests_total{path="/v1/recommend"')
        ]
        assert counted == ['fmpair_requests_total{path="/v1/recommend",status="200"} 30']
        assert ask(address, "live")[0] == ask(address, "ready")[0] == 200


def test_a_key_is_asked_for(own_file, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("0123456789abcdef0123\n")
    with service(own_file, "--api-key-file", str(keys)) as address:
        assert ask(address, "v1/model")[0] == 401
        own = {"Authorization": "Bearer 0123456789abcdef0123"}
        assert ask(address, "v1/model", **own)[0] == 200


def test_workers_end_with_the_process_that_started_them(own_file):
    command = [sys.executable, "-m", "fmpair", "serve", str(own_file), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    process.stderr.readline()
    workers = [int(one) for one in Path(f"/proc/{process.pid}/task/{process.pid}/children")
               .read_text().split()]  # fmt: skip
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    limit = time.monotonic() + 15
    while any(map(_alive, workers)):
        assert time.monotonic() < limit
        time.sleep(0.05)
    process.stderr.close()


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def test_a_damaged_model_is_told_in_one_line(own_file, tmp_path):
    broken = tmp_path / "broken.fmpair"
    content = bytearray(own_file.read_bytes())
    content[-1] ^= 1
    broken.write_bytes(content)
    command = [sys.executable, "-m", "fmpair", "serve", str(broken), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "its checksum does not match" in done.stderr and done.stderr.count("\n") == 1


def test_a_file_that_is_no_model_leaves_no_event_store(tmp_path):
    (tmp_path / "events.csv").write_text("user,item\na,b\n")
    said = refused(tmp_path / "events.csv")
    assert "not an fmpair model: a model file is what `save` or `fmpair fit` writes" in said
    assert [path.name for path in tmp_path.iterdir()] == ["events.csv"]


def refused(path, *flags):
    """The one line by which a service does not start."""
    command = [sys.executable, "-m", "fmpair", "serve", str(path), "--port", "0", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.thorough)])
def test_a_column_of_images_that_is_not_there_is_told_with_those_that_are(tmp_path, workers):
    items = pl.DataFrame({"item": list(range(20)), "title": ["t"] * 20, "picture": ["p"] * 20})
    path = tmp_path / "model.fmpair"
    Popularity().fit(Dataset.from_frame(clicks(), items=items)).save(path)
    assert refused(path, "--workers", workers, "--images", "pictur") == (
        "error: --images: unknown item column 'pictur'. Did you mean 'picture'? "
        "Known: title, picture\n"
    )


def test_images_need_a_model_with_columns_of_items_or_a_column_that_was_pushed(own_file):
    assert refused(own_file, "--images", "picture") == (
        "error: --images: the model knows no columns of items: fit it with --items TABLE\n"
    )
    with service(own_file) as address:
        body = json.dumps({"items": [{"item": 3, "picture": "http://localhost/3.png"}]}).encode()
        request = urllib.request.Request(f"{address}v1/items", body, method="PUT")
        assert urllib.request.urlopen(request, timeout=20).status == 200
    with service(own_file, "--images", "picture") as address:
        assert json.loads(ask(address, "v1/model")[1])["models"][0]["images"] == "picture"
