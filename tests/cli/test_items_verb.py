"""`items push` to an address that is wrong, or is no service: one line, no traceback."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("item,price\nbook-001,5\n")
    return path


@contextmanager
def site(status, content, **headers):
    """The address of a server that gives every PUT this answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def said(fmpair, table, url):
    """The one line of a push that fails."""
    result = fmpair("items", "push", table, "--url", url)
    assert result.code == 1 and result.out == ""
    assert result.err.startswith("error: ") and result.err.count("\n") == 1
    assert "\ue000" not in result.err and "Traceback" not in result.err
    return result.err


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "localhost", "ftp://127.0.0.1", ""])
def test_an_address_without_a_scheme_of_the_web_is_refused(fmpair, table, url):
    assert "must begin with http:// or https://" in said(fmpair, table, url)


def test_a_host_that_nobody_knows_is_named(fmpair, table):
    line = said(fmpair, table, "http://nobody.invalid")
    assert line.startswith("error: cannot reach http://nobody.invalid/v1/items: ")
    assert line.endswith("; is the service running?\n") and "Errno" not in line


def test_a_port_where_nobody_listens_is_named(fmpair, table):
    with site(200, b"") as url:
        pass
    line = said(fmpair, table, url)
    assert f"cannot reach {url}/v1/items: Connection refused; is the service running?" in line


@pytest.mark.parametrize("url", ["http://[::1", "http://", "http://a b", "http://127.0.0.1:x"])
def test_an_address_that_is_none_is_named(fmpair, table, url):
    assert said(fmpair, table, url).startswith("error: cannot reach http:")


def test_a_path_that_the_service_does_not_have_is_named(fmpair, table):
    with site(404, b'{"detail": "there is nothing at /shop/v1/items"}') as url:
        line = said(fmpair, table, f"{url}/shop/")
    assert line.endswith(f"{url}/shop/v1/items: there is nothing at /shop/v1/items; check --url\n")


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_page_of_another_site_is_no_service(fmpair, table, status):
    with site(status, b"<h1>No</h1>") as url:
        line = said(fmpair, table, url)
    assert line == f"error: {url}/v1/items answers with status {status}: check --url\n"


@pytest.mark.parametrize(
    "content", [b"<h1>Hi</h1>", b"", b"[1, 2]", b'{"a": "b"}', b"null", b"\xff"]
)
def test_an_answer_that_no_service_gives_is_told(fmpair, table, content):
    with site(200, content) as url:
        line = said(fmpair, table, url)
    assert line.endswith("/v1/items does not answer as a service of fmpair: check --url\n")


def test_what_a_service_refuses_is_told_in_its_words(fmpair, table):
    with site(422, b'{"detail": "items[0].price: a number is\\nexpected"}') as url:
        line = said(fmpair, table, url)
    assert "refused the items: items[0].price: a number is" in line
