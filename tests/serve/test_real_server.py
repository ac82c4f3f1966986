"""A real server on a real socket: keep-alive, slow clients, bodies that are too large."""

import http.client
import json
import socket
import threading
import time

import pytest
from static_model import StaticModel

from fmpair.serve import application, worker
from fmpair.serve.application import MAX_BODY, Application, read_pages
from fmpair.serve.service import Service

ANN = "ann/3 <é🎈>"
QUESTION = json.dumps({"user": ANN, "n": 2}).encode()


@pytest.fixture(scope="module")
def address(served_model):
    """The address of the worker's server, in a thread; short timeouts."""
    with pytest.MonkeyPatch.context() as patch, socket.socket() as listening:
        patch.setattr(worker, "HEAD_TIMEOUT", 0.5)
        patch.setattr(worker, "CHECK_EVERY", 0.1)
        patch.setattr(application, "TIMEOUT", 0.5)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        service = Service(StaticModel(served_model, "m"))
        server = worker.make_server(Application(service, pages=read_pages()))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield listening.getsockname()
        server.should_exit = True
        thread.join()


@pytest.fixture
def client(address):
    connection = http.client.HTTPConnection(*address, timeout=10)
    yield connection
    connection.close()


def recommend(client):
    client.request("POST", "/v1/recommend", QUESTION)
    response = client.getresponse()
    return response.status, json.loads(response.read())


def test_a_connection_answers_several_requests(client):
    assert recommend(client)[0] == 200
    first = client.sock.getsockname()
    for path in ("/", "/live", "/v1/model", "/page/page.js"):
        client.request("GET", path)
        response = client.getresponse()
        length = int(response.headers["content-length"])
        assert response.status == 200 and len(response.read()) == length > 0
    status, answer = recommend(client)
    assert status == 200 and len(answer["items"]) == 2 and client.sock.getsockname() == first


def test_a_head_request_leaves_the_connection_usable(client):
    client.request("HEAD", "/v1/model")
    response = client.getresponse()
    assert response.status == 200 and response.read() == b""
    assert recommend(client)[0] == 200


def test_a_cached_page_is_not_sent_again(client):
    client.request("GET", "/")
    response = client.getresponse()
    assert response.status == 200 and response.read()
    client.request("GET", "/", headers={"If-None-Match": response.headers["etag"]})
    response = client.getresponse()
    assert response.status == 304 and response.read() == b""
    assert recommend(client)[0] == 200


def test_a_body_declared_too_large_is_rejected_before_it_is_sent(client):
    client.putrequest("POST", "/v1/recommend")
    client.putheader("Content-Length", str(MAX_BODY + 1))
    client.endheaders()
    response = client.getresponse()
    assert response.status == 413 and "more than 4,194,304 bytes" in json.load(response)["detail"]


def test_a_chunked_body_is_rejected_once_it_is_too_large(client):
    chunks = (b" " * (1 << 20) for _ in range(5))
    client.request("POST", "/v1/recommend", chunks, encode_chunked=True,
                   headers={"Transfer-Encoding": "chunked"})  # fmt: skip
    assert client.getresponse().status == 413


def test_a_body_that_does_not_arrive_times_out(client):
    client.putrequest("POST", "/v1/recommend")
    client.putheader("Content-Length", "100")
    client.endheaders(b'{"user"')
    response = client.getresponse()
    assert response.status == 408 and response.headers["connection"] == "close"
    response.read()


@pytest.mark.parametrize("sent", [b"", b"GET /live HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
def test_a_connection_without_a_complete_head_is_closed(address, sent):
    with socket.create_connection(address, timeout=10) as silent:
        silent.sendall(sent)
        start = time.monotonic()
        assert silent.recv(1) == b"" and time.monotonic() - start < 5


def test_a_client_that_leaves_does_not_disturb_the_next(address, client):
    with socket.create_connection(address) as leaving:
        leaving.sendall(
            b"POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"
        )
    assert recommend(client)[0] == 200


def test_what_is_not_http_is_rejected(address):
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
