"""Serve a model file over HTTP, with a web page to try it (extra `serve`)."""
