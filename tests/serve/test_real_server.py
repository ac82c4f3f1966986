"""A real server on a real socket: keep-alive, slow clients, bodies that are too large."""

import http.client
import json
import socket
import threading
import time
from contextlib import ExitStack, suppress

import pytest
from static_model import StaticModel

from fmpair.serve import application, connections
from fmpair.serve.application import MAX_BODY, Application, read_pages
from fmpair.serve.service import Service

ANN = "ann/3 <é🎈>"
QUESTION = json.dumps({"user": ANN, "n": 2}).encode()


@pytest.fixture(scope="module")
def address(served_model):
    """The address of the worker's server, in a thread; short timeouts."""
    with pytest.MonkeyPatch.context() as patch, socket.socket() as listening:
        patch.setattr(connections, "HEAD_TIMEOUT", 0.5)
        patch.setattr(connections, "CHECK_EVERY", 0.1)
        patch.setattr(connections, "READ_TIMEOUT", 0.5)
        patch.setattr(connections, "MAX_PER_CLIENT", 20)
        patch.setattr(application, "TIMEOUT", 0.5)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        service = Service(StaticModel(served_model, "m"))
        server = connections.make_server(Application(service, pages=read_pages()))
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


HEAD = b"POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\n"
FLOODS = {
    "one endless field": (HEAD + b"X-Long: ", b"x" * 65_536),
    "endless fields": (HEAD, b"X-More: 1\r\n" * 5_000),
    "an endless name": (HEAD, b"x" * 65_536),
    "an endless address": (b"GET /", b"x" * 65_536),
    "an endless method": (b"", b"\r\n" * 32_768),
    "endless trailers": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n", b"X-More: 1\r\n" * 5_000
    ),
    "an endless trailer": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nX-Long: ", b"x" * 65_536
    ),
    "an endless extension": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;x=", b"x" * 65_536
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", FLOODS)
def test_a_head_without_an_end_is_refused(address, kind):
    first, rest = FLOODS[kind]
    with socket.create_connection(address, timeout=10) as flood:
        flood.sendall(first)
        sent = 0
        with suppress(ConnectionError):
            while sent < 64 << 20:
                flood.sendall(rest)
                sent += len(rest)
        assert sent < 16 << 20  # what the buffers of the system take


def test_a_large_head_gets_an_answer_that_says_so(address):
    with socket.create_connection(address, timeout=10) as client:
        client.sendall(HEAD + b"X-Long: " + b"x" * 40_000 + b"\r\n\r\n")
        answer = client.recv(2_000)
    assert answer.startswith(b"HTTP/1.1 431 ") and b"more than 32,768 bytes or 100 f" in answer
    assert b"application/problem+json" in answer


def test_a_head_of_usual_size_is_accepted(client):
    fields = {f"X-Field-{number}": "x" * 300 for number in range(80)}
    client.request("POST", "/v1/recommend", QUESTION, headers=fields)
    response = client.getresponse()
    assert response.status == 200 and response.read()


def test_requests_that_do_not_wait_for_answers_are_bounded(address):
    one = b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for count, all_answered in ((20, True), (2_000, False)):
        with socket.create_connection(address, timeout=10) as client:
            client.sendall(one * count)
            found = b""
            with suppress(TimeoutError, ConnectionError):
                client.settimeout(1)
                while found.count(b"HTTP/1.1 200") < count and (part := client.recv(65_536)):
                    found += part
        assert (found.count(b"HTTP/1.1 200") == count) == all_answered


def test_a_client_has_so_many_connections_and_no_more(address, client):
    with ExitStack() as stack:
        many = [stack.enter_context(socket.create_connection(address, 10)) for _ in range(30)]
        refused = 0
        for one in many:
            with suppress(ConnectionError):
                one.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                refused += one.recv(100).startswith(b"HTTP/1.1 429 ")
        assert refused >= 10
    until_answered = time.monotonic() + 10
    while True:  # the others have left
        try:
            assert recommend(client)[0] == 200
            break
        except (AssertionError, ConnectionError, http.client.HTTPException):
            client.close()
            assert time.monotonic() < until_answered


def test_a_client_that_never_reads_is_closed(address):
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.settimeout(10)
        deaf.connect(address)
        ask = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with pytest.raises(ConnectionError):
            for _ in range(200):
                deaf.sendall(ask * 10)
                time.sleep(0.05)
