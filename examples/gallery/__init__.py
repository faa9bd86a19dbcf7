"""The pictures of docs/gallery, and the small world that they show: `python -m
examples.gallery`."""
