"""Words of outputs are told as the glossary tells them, where they first stand on a card."""

from __future__ import annotations

import re
from pathlib import Path

from sfumato.display.cards import WORDS, Card, Facts, Sentences, html

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"


def entries(page: str) -> dict[str, str]:
    """Return what a page says of each term, as plain text."""
    found = {}
    for terms, text in re.findall(r"^(\*\*.+)\n: ((?:.+\n)(?:  .+\n)*)", page, re.M):
        plain = " ".join(re.sub(r"[*`]|\[|\]\([^)]*\)", "", text).split())
        for term in re.split(r", |\*\* ", terms):
            found[term.strip("* ")] = plain
    return found


def unlike(page: str) -> list[str]:
    """Return the words that the glossary tells otherwise, or not at all."""
    told = entries(page)
    return [word for word, sentence in WORDS.items() if not told.get(word, "").startswith(sentence)]


def test_cards_and_the_glossary_say_the_same() -> None:
    assert not unlike(GLOSSARY.read_text())


def test_a_word_is_told_once_where_it_first_stands() -> None:
    card = Card(
        "epsilon 1", [Facts([("spent", "epsilon 1, delta 0")]), Sentences(["delta 0 <b>", "clamped"])]
    )
    found = re.findall(r"<abbr[^>]*>([^<]*)</abbr>", html(card))
    assert found == ["epsilon", "delta", "clamped"]
    assert "&lt;b&gt;" in html(card)
