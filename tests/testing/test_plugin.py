"""The pytest plugin: tests get a flakiness, fixtures work in tests alone, and nothing else is disturbed."""

import math
import os
import re
import subprocess
import sys
import textwrap

import numpy as np  # noqa: F401 - loaded once for all tests that run inside
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError
from sfumato.testing import noise_free
from sfumato.testing.assertions.noise_assertions import assert_noisy  # noqa: F401
from sfumato.testing.flakiness import Account

pytest_plugins = ["pytester"]

START = """
import pyarrow as pa, pytest
import sfumato as sf
from sfumato.noise import Laplace, SeededWords
from sfumato.testing import assert_approx_equal, assert_noisy
LAW = Laplace(1)

def question():
    return sf.scan(pa.table({"id": range(100), "x": range(100)}), privacy_unit="id").bound(rows=1).agg(
        n=sf.count(), m=sf.mean("x", lower=0, upper=50))
"""


@pytest.fixture
def run(pytester):
    """Run tests inside, with the plugin as it is installed."""

    def run(source: str):
        pytester.makepyfile(START + textwrap.dedent(source))
        options = ["-p", "no:cacheprovider", "-p", "no:randomly", "-W", "error", "--strict-markers"]
        return pytester.runpytest_inprocess(*options)

    return run


def stated(result) -> float:
    """The summary's log10 of the run's flakiness."""
    found = re.search(r"fails with probability at most \S+ \(10\^(\S+)\)", result.stdout.str())
    assert found
    return float(found.group(1))


# Accounts.


def test_shares_never_add_up_to_more_than_the_whole():
    account = Account("t", k=6)
    shares = [10 ** -account.share() for _ in range(2000)]
    assert sum(shares) <= 1e-6 and shares[:3] == pytest.approx([1e-6 / 2, 1e-6 / 6, 1e-6 / 12])
    assert account.log10_spent <= -6


def test_declared_and_shared_together():
    account = Account("t", k=6)
    assert account.charge(7) == 7.0 and account.left == pytest.approx(0.9)
    for _ in range(500):
        account.charge()
    assert account.left > 0 and account.log10_spent <= -6
    with pytest.raises(ParameterError, match="one assertion may take no more"):
        account.charge(6)
    with pytest.raises(ParameterError, match="before the first assertion"):
        account(k=3)
    whole = Account("t", k=23)
    whole.charge(23)
    assert whole.left == pytest.approx(0, abs=1e-9)
    with pytest.raises(ParameterError):
        whole.charge(24)


def test_a_planned_number_is_held():
    account = Account("t", k=6)(k=6, assertions=3)
    assert [account.charge() for _ in range(3)] == pytest.approx([6 + math.log10(3)] * 3)
    assert account.log10_spent <= -6 + 1e-9
    with pytest.raises(ParameterError, match="assertions is 3"):
        account.charge()


# Tests and runs.


@pytest.mark.flakiness(k=12, because="one test inside compares at 10^-13")
def test_a_run_adds_up_what_its_tests_state(run, pytester):
    """Tests that fail too; and with a reason, what the whole test states in place of its assertions."""
    pytester.makeini("[pytest]\nflakiness_k = 7\n")
    result = run("""
        @pytest.mark.flakiness(k=20)
        def test_many(flakiness):
            for _ in range(100):
                assert_approx_equal([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], law=LAW)
            assert flakiness.log10_spent <= -20 and flakiness.made == 100
            assert flakiness.left == pytest.approx(1 / 101)
        @pytest.mark.flakiness(k=4, assertions=1)
        def test_fails():
            assert_approx_equal(1, 1000, law=LAW)
        def test_declared():
            assert_noisy([1] * 40, [2] * 40, law=LAW, k=4)
        def test_nobody_knows():
            assert_approx_equal(1, 1, tolerance=2)
        def test_without():
            pass
        @pytest.mark.flakiness(k=9, assertions=1)
        @pytest.mark.parametrize("i", range(10))
        class TestAll:
            def test_it(self, i):
                assert_approx_equal(i, i, law=LAW)
        @pytest.mark.flakiness
        def test_of_the_setting(flakiness):
            assert flakiness.k == 7
            assert_approx_equal(1, 1, law=LAW)
        def test_by_hand(flakiness):
            tolerance = LAW.tolerance(flakiness(k=20).share(partitions=2))
            assert_approx_equal([1.0, 2.0], [1.5, 2.5], tolerance=tolerance)
            assert flakiness.unknown == 0
        def test_says_what_to_do():
            with pytest.raises(ValueError, match="Pass k=23.*pytest.mark.flakiness"):
                assert_approx_equal(1, 1, law=LAW)
        @pytest.mark.flakiness(k=12, because="a reason")
        def test_stated():
            assert_approx_equal(LAW.rounded(3), [0, 0, 0], law=LAW, k=13)
            assert_approx_equal(1, 1, tolerance=3)
        @pytest.mark.noise_cannot_matter("it looks at the shape")
        def test_harmless():
            assert LAW.rounded(3).shape == (3,)
            assert_approx_equal(1, 1, law=LAW, k=1)
        def test_loud():
            LAW.rounded(3)
        """)
    result.assert_outcomes(passed=20, failed=1)
    assert stated(result) == pytest.approx(math.log10(2e-4 + 1e-8 + 1e-7 / 2), abs=1e-3)
    lines = [
        "20 tests, * assertions of noise: *",
        "  0.0001 *test_*",
        "  0 1 of them says *",
        "not counted: 2 that *",
    ]
    result.stdout.fnmatch_lines(lines)


@pytest.mark.noise_cannot_matter("no test inside looks at its noise")
def test_with_a_setting_a_test_that_met_noise_and_states_nothing_fails(run, pytester):
    """Noise of a fixture is met by each test that uses it, in any order."""
    pytester.makeini("[pytest]\nflakiness_run_k = 9\n")
    result = run(
        """
        def test_loud():
            LAW.rounded(3)
        def test_release():
            question().release(epsilon=1).to_arrow()
        def test_given():
            assert_approx_equal([1.0], [1.0], tolerance=2)
        def test_fails_by_itself():
            assert LAW.rounded(3) is None
        def test_is_skipped():
            LAW.rounded(3)
            pytest.skip("no matter")
        def test_seeded(seeded_words):
            question().release(epsilon=1, unsafe_words=seeded_words).to_arrow()
        def test_noise_free(noise_free):
            question().release(epsilon=1).to_arrow()
        @pytest.fixture(scope="module")
        def drawn():
            return LAW.rounded(3)
        @pytest.fixture
        def again(drawn):
            return drawn
        def test_first(again): pass
        def test_second(drawn): pass
        def test_third(): pass
        """
    )
    result.assert_outcomes(passed=3, failed=6, skipped=1)
    assert len(re.findall("^this test drew noise and does not state", result.stdout.str(), re.M)) == 5


def test_a_run_of_more_than_the_setting_fails(run, pytester):
    pytester.makeini("[pytest]\nflakiness_run_k = 9\n")
    test = "@pytest.mark.flakiness(k={k}, because='a reason')\ndef test_it(): pass\n"
    enough = run(test.format(k=9))
    assert enough.ret == 0 and "FAILED" not in enough.stdout.str()
    few = run(test.format(k=8.9))
    few.assert_outcomes(passed=1)
    assert few.ret == 1
    few.stdout.fnmatch_lines(["FAILED: the setting flakiness_run_k asks for at most 10^-9"])


def test_bad_markers_are_errors_that_say_so(run):
    bad = ["k=0", "k='x'", "k=True", "23", "k=1, assertions=0", "tolerance=3", "k=9, because=' '"]
    bad = [f"flakiness({a})" for a in bad]
    bad += [f"noise_cannot_matter{a}" for a in ("", "('')", "(3)", "(why='x')")]
    result = run("".join(f"@pytest.mark.{a}\ndef test_{i}():\n    pass\n" for i, a in enumerate(bad)))
    result.assert_outcomes(errors=len(bad))
    assert len(re.findall("^E .*ParameterError: .* must be", result.stdout.str(), re.M)) == len(bad)


# Fixtures.


@pytest.mark.long
@pytest.mark.flakiness(
    k=13, because="a group of 10 units is shown, or one of 1,000 hidden; and an assertion inside"
)
def test_fixtures(run):
    result = run(
        """
        def test_seeded(seeded_words):
            assert repr(seeded_words) == repr(SeededWords("test_fixtures.py::test_seeded"))
            assert question().release(epsilon=1, unsafe_words=seeded_words).to_arrow().num_rows == 1

        def test_noise_free(noise_free):
            for _ in range(3):
                assert question().release(epsilon=0.01).to_arrow().to_pylist() == [{"n": 100, "m": 37.25}]

        def test_noise_is_back():
            seen = {question().release(epsilon=0.01).to_arrow()["n"][0].as_py() for _ in range(9)}
            assert len(seen) > 1

        @pytest.mark.flakiness(k=20)
        def test_recorder(recorder):
            one, two = question().release(epsilon=1), question().release(epsilon=2)
            assert two.to_arrow() and one.to_arrow()
            assert [r.release for r in recorder.releases] == [two, one]
            assert recorder[one].truth.to_pylist() == [{"n": 100, "m": 37.25}] == recorder[0].kept.to_pylist()
            assert_approx_equal(one, recorder[one].truth)
            with pytest.raises(ValueError, match="below 2"):
                recorder[5]

        def test_recorder_of_private_groups(recorder):
            table = pa.table({"id": range(1010), "g": ["a"] * 1000 + ["b"] * 10})
            release = sf.scan(table, privacy_unit="id").group_by("g").bound(groups=1).agg(u=sf.count_units()).release(
                epsilon=0.5, delta="1e-15")
            assert release.to_arrow()["g"].to_pylist() == ["a"]
            assert recorder[release].truth.to_pylist() == [{"g": "a", "u": 1000}, {"g": "b", "u": 10}]
            assert recorder[release].kept.to_pylist() == [{"g": "a", "u": 1000}]
            assert_approx_equal(release, recorder[release].truth, k=15)
        """
    )
    result.assert_outcomes(passed=5)


def test_noise_free_selection_shows_what_is_more_likely_shown():
    counts = {i: i for i in range(1, 120)}
    table = pa.table({"id": range(sum(counts)), "g": [g for g, n in counts.items() for _ in range(n)]})
    question = sf.scan(table, privacy_unit="id").group_by("g").bound(groups=1).agg(u=sf.count_units())
    for selection in ("truncated_geometric", "laplace", "gaussian"):
        with noise_free():
            release = question.release(epsilon=1, delta="1e-6", group_selection=selection)
        threshold = release.plan.selection.expected_threshold
        assert release.to_arrow()["g"].to_pylist() == list(range(threshold, 120))


REFUSED = """
import sfumato.testing as t
from sfumato.errors import RefusalError
from sfumato.testing.recorder import NoiselessWords
tries = [lambda: t.seeded_words(1), NoiselessWords, lambda: t.noise_free().__enter__(), lambda: t.recording().__enter__()]
for attempt in tries:
    try:
        attempt()
    except RefusalError as error:
        print("refused:", error)
    else:
        print("done")
"""


def test_outside_of_tests_all_is_refused():
    command = [sys.executable, "-W", "error", "-c", REFUSED]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env=os.environ | {"PYTEST_CURRENT_TEST": "x"}
    )
    told = done.stdout.splitlines()
    assert len(told) == 4
    assert all(line.startswith("refused: ") and "no pytest test is running" in line for line in told)
