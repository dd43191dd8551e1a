"""Check the prose of pages and docstrings: words that the project does not use, and long sentences.

    python tools/prose.py [--since REVISION] [--words] [file ...]

Without files it reads README.md, CHANGELOG.md, CONTRIBUTING.md and docs/. With --since it reports only lines
that a change since the revision adds. With --words it prints two counts for each page. The first is of all
words outside code blocks, with tables, and formulas as they are written: limits on pages mean this figure.
Tables that a tool writes are not counted. The second is of sentences alone, where a formula or a name in code
is one word.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LONGEST = 40  # words in a sentence
WORD = re.compile(r"\S*\w\S*")  # the bars and rules of a table are none
MAX_WORDS = {"README.md": 900, "CHANGELOG.md": 1_500, "docs": 90_000}
CODE = re.compile(r"^(`{3,}|~{3,}).*?^\1\s*$", re.MULTILINE | re.DOTALL)  # a block between fences
GENERATED = re.compile(r"^<!-- begin: written by .*?^<!-- end -->$", re.MULTILINE | re.DOTALL)

# What not to write, as a regular expression, and what to write instead.
WORDS = {
    r"\btold\b": "reported, shown",
    r"\btells? of\b": "reports, describes",
    r"\bothers than\b": "different from",
    r"\bnoisings?\b": "mechanism",
    r"\bdraws? on the ledger\b": "charges the ledger",
    r"\bby itself alone\b": "alone",
    r"\bwhoever\b": "a user who, anyone who",
    r"\bwhat is asked\b": "the query",
    r"\bwhat is released\b": "the release",
    r"\bhow much much\b": "how much",
    r"\bnobody vouches\b": "unchecked",
    r"\b(?:a|the) desk\b": "the query service",
    r"\bmade[- ]up groups\b": "simulated groups",
    r"\bplanted defects?\b": "seeded faults",
    r"\bstretched noise\b": "reweighted noise",
    r"\bas often as not\b": "half of the time",
    r"(?-i:\ba) (?!one|once|eu)(?=[aeio][a-z]{2})": "an",
    r"\bthereof\b|\bwhereof\b|\bhereby\b|\bthereby\b": "a plain word",
    r"\bso many times as large\b": "multiplied by a factor",
    r"\bbeside\b(?! the| a| it| each| OpenDP)": "next to, besides",
}


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield paragraphs and list items with the numbers of their first lines: no code, tables or formulas."""
    lines, fence, held, start = text.splitlines(), "", list[str](), 0
    for number, line in enumerate([*lines, ""], 1):
        mark = re.match(r"\s*(`{3,}|~{3,}|:{3,})", line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) else fence
            continue
        if mark and mark[1][0] != ":":
            fence = mark[1]
        other = mark or not line.strip() or line.lstrip().startswith(("|", "#", ">", "<", "$$", "!["))
        if other or re.match(r"\s*(?:[-*+]|\d+\.) ", line) or line.startswith("    "):
            if held:
                yield start, " ".join(held)
            held = []
        if not other and not line.startswith("    "):
            if not held:
                start = number
            held.append(line.strip())


def plain(text: str) -> str:
    """Return a paragraph as it is read: code, formulas and link targets are one word each."""
    text = re.sub(r"\$\$.*?\$\$|\$[^$]*\$|``.*?``|`[^`]*`", "X", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"[*_]{1,2}", "", text)


def findings(text: str) -> Iterator[tuple[int, str]]:
    """Yield what is to be changed on a page, each with its line."""
    for start, block in blocks(text):
        prose = plain(block)
        for word, instead in WORDS.items():
            for found in re.finditer(word, prose, re.IGNORECASE):
                yield start, f"{found[0]!r}: write {instead}"
        for sentence in re.split(r"(?<=[.!?])[\"')\]]*\s+(?=[A-Z\"'(])", prose):
            if (length := len(re.findall(r"[\w'’-]+", sentence))) > LONGEST:
                yield start, f"{length} words in one sentence: {sentence[:60]}..."


def added(revision: str, path: Path) -> set[int]:
    """Return the numbers of the lines of a file that a change adds."""
    command = ["git", "-C", str(ROOT), "diff", "--unified=0", revision, "--", str(path)]
    changed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    found: set[int] = set()
    for first, count in re.findall(r"^@@ .* \+(\d+)(?:,(\d+))? @@", changed, re.M):
        found |= set(range(int(first), int(first) + int(count or 1)))
    return found


def count_words(path: Path) -> int:
    """Count the words of a page, or of all pages in a folder, outside code blocks and generated tables."""
    files = sorted(path.rglob("*.md")) if path.is_dir() else [path]
    texts = (file.read_text(encoding="utf-8") for file in files)
    return sum(len(WORD.findall(GENERATED.sub("", CODE.sub("", text)))) for text in texts)


def pages() -> list[Path]:
    """Return the pages that people read."""
    return [ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING")] + sorted(
        (ROOT / "docs").rglob("*.md")
    )


def main() -> int:
    """Print what is to be changed, and return whether there is anything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--since")
    parser.add_argument("--words", action="store_true")
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    total, sentences, wrong = 0, 0, 0
    for path in options.files or pages():
        text = path.read_text(encoding="utf-8")
        if options.words:
            total += (words := count_words(path))
            sentences += (own := sum(len(plain(block).split()) for _, block in blocks(text)))
            print(f"{words:7,} {own:7,} {path.resolve().relative_to(ROOT)}")
            continue
        lines = added(options.since, path) if options.since else None
        for number, finding in findings(text):
            if lines is None or any(number <= n < number + 20 for n in lines):
                print(f"{path.resolve().relative_to(ROOT)}:{number}: {finding}")
                wrong += 1
    if options.words:
        print(f"{total:7,} {sentences:7,} in all, {count_words(ROOT / 'docs'):,} in docs/")
    for name, most in MAX_WORDS.items():
        if (words := count_words(ROOT / name)) > most:
            print(f"{name}: {words:,} words, {words - most:,} too many")
            wrong += 1
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
