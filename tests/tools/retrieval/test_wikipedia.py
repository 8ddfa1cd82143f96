"""Wikipedia: the client against a MediaWiki on loopback."""

from __future__ import annotations

import pytest

from tests.support.mediawiki import MediaWiki
from triplewise.tools.core.errors import ConfigurationError, DocumentsUnavailableError
from triplewise.tools.retrieval.documents import WikipediaDocuments, open_documents

PAGES = {
    "Viggo Mortensen": "Viggo Peter Mortensen is an actor.\n\n\n== Career ==\nHe played Aragorn in The Lord "
    "of the Rings.\n\n\n== Early life ==\nMortensen was born in Manhattan.",
    "Aragorn": "Aragorn is a character, played by Viggo Mortensen.",
    "Bruges": "Bruges is a town.",
}


@pytest.fixture(autouse=True)
def _straight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_pages_are_searched_fetched_and_ranked() -> None:
    with MediaWiki(PAGES) as wiki:
        documents = open_documents(f"wikipedia:{wiki.url}")
        found = documents.find("Viggo Mortensen", "place of birth", "Where was Viggo Mortensen born?")
        assert found[0].source == "https://wiki.example.org/wiki/Viggo_Mortensen"
        assert {p.title for p in found} == {"Viggo Mortensen", "Aragorn"}
        assert any("born in Manhattan" in p.text and "==" not in p.text for p in found)
        asked = len(wiki.asked)
        assert documents.find("viggo mortensen", "character")
        assert len(wiki.asked) == asked, "a name is looked up once"
        assert all(query["format"] == "json" for query in wiki.asked)
        assert documents.find("Nobody at all") == ()
        assert documents.find("") == ()


@pytest.mark.parametrize("fault", ["html", "error", "status", "odd", "slow", "deep", "long"])
def test_what_goes_wrong_is_told_in_time(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triplewise.tools.retrieval.documents.REQUEST_SECONDS", 0.2)
    with MediaWiki(PAGES, fault) as wiki:
        documents = WikipediaDocuments(wiki.url)
        with pytest.raises(
            DocumentsUnavailableError, match=r"127\.0\.0\.1 (cannot be reached|gave no usable)"
        ):
            documents.find("Bruges")


def test_offline_is_told_with_what_to_do() -> None:
    documents = open_documents("wikipedia:http://127.0.0.1:9/w/api.php")
    with pytest.raises(DocumentsUnavailableError, match="set documents to a folder of text files"):
        documents.find("Bruges")


def test_which_wiki() -> None:
    german = open_documents("wikipedia:de")
    assert isinstance(german, WikipediaDocuments)
    assert german.url == "https://de.wikipedia.org/w/api.php"
    assert open_documents("wikipedia:de") is german
    with pytest.raises(ConfigurationError, match="a language or the API of a MediaWiki"):
        open_documents("wikipedia:ftp://x")
