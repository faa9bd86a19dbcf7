"""CITATION.cff has what version 1.2.0 of its format asks for;
tests/package/test_tools.py asks cffconvert as well."""

from typing import Any

import pytest
import yaml

from package.built import REPOSITORY

CITATION: dict[str, Any] = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
TOP = {
    "abstract",
    "authors",
    "cff-version",
    "commit",
    "contact",
    "date-released",
    "doi",
    "identifiers",
    "keywords",
}
TOP |= {
    "license",
    "license-url",
    "message",
    "preferred-citation",
    "references",
    "repository",
    "repository-artifact",
}
TOP |= {"repository-code", "title", "type", "url", "version"}
PERSON = {
    "affiliation",
    "alias",
    "email",
    "family-names",
    "given-names",
    "name-particle",
    "name-suffix",
    "orcid",
}


def test_it_has_the_keys_of_its_format() -> None:
    assert CITATION["cff-version"] == "1.2.0"
    assert {"authors", "cff-version", "message", "title"} <= CITATION.keys() <= TOP
    assert CITATION["type"] in ("software", "dataset")
    assert all(
        isinstance(CITATION[key], str)
        for key in ("message", "title", "version", "license", "abstract")
    )
    assert len(CITATION["keywords"]) == len(set(CITATION["keywords"])) > 0


@pytest.mark.parametrize(
    "work", [CITATION, *CITATION["references"]], ids=lambda work: work["title"]
)
def test_authors_are_persons_or_have_a_name(work: dict[str, Any]) -> None:
    assert work["authors"]
    assert all(
        author.keys() <= PERSON or set(author) == {"name"} for author in work["authors"]
    )


def test_the_paper_is_named() -> None:
    (paper,) = CITATION["references"]
    assert (paper["type"], paper["year"], paper["authors"][0]["family-names"]) == (
        "article",
        2013,
        "Li",
    )
    assert paper["identifiers"][0].keys() <= {
        "type",
        "value",
        "description",
        "relation",
    }
    assert paper["url"].endswith(
        paper["identifiers"][0]["value"].removeprefix("arXiv:")
    )
