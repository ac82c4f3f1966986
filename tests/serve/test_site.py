"""The page's files: all sent, none by a path of the request, and nothing in them from elsewhere."""

import re
from importlib.resources import files

import pytest

pytest.importorskip("starlette")
pytest.importorskip("msgspec")

from asking import ask

from fmpair.serve.application import Application, page_routes
from fmpair.serve.live_models import Models
from fmpair.serve.service import Service

FILES = {
    one.name: one.read_text("utf-8") for one in files("fmpair.serve").joinpath("page").iterdir()
}


@pytest.fixture(scope="module")
def application(model_file):
    return Application(Service(Models(model_file)), more=page_routes())


def address(name):
    return "/" if name == "index.html" else f"/page/{name}"


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_sent_with_its_type_and_a_policy_that_forbids_all_else(application, name):
    reply = ask(application, address(name))
    assert reply.status == 200 and reply.body.decode() == FILES[name]
    kind = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    assert reply.headers["content-type"].startswith(kind[name.rpartition(".")[2]])
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    again = ask(application, address(name), headers={"if-none-match": reply.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/page/", "/page/none.js", "/page/../site.py", "/page/%2e%2e/site.py"]
)
def test_nothing_else_is_sent(application, path):
    assert ask(application, path).status == 404


@pytest.mark.parametrize("name", FILES)
def test_no_file_needs_anything_from_elsewhere(name):
    text = FILES[name].replace("http://www.w3.org/2000/svg", "")  # the name of a format
    assert re.findall(r"(?:https?:)?//[\w-]+\.\w|@import|url\(", text) == []


def test_no_text_becomes_a_part_of_the_page():
    scripts = "".join(text for name, text in FILES.items() if name.endswith(".js"))
    risky = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser"
    )
    assert re.findall(risky, scripts) == []
    page = FILES["index.html"]
    assert re.findall(r"\sstyle=|\son\w+=|<style|<script(?! type=\"module\" src=)", page) == []


def test_every_module_that_is_imported_is_there():
    named = {name for text in FILES.values() for name in re.findall(r'from "\./(.*?)"', text)}
    named |= set(re.findall(r'"page/(.*?)"', FILES["index.html"]))
    assert named | {"index.html"} == set(FILES)
