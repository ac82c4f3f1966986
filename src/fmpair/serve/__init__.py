"""A model file as a service: answers over HTTP, with a page to look at (extra `serve`)."""
