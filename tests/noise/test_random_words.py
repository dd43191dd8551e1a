"""Words and coins: fresh streams, whole streams, and coins as probable as they should be, at their boundaries too."""

import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.noise import (
    FixedWords,
    KeyedWords,
    SecureWords,
    SeededWords,
    bernoulli,
    bernoulli_each,
    default_words,
)
from sfumato.noise import random_words as module


@pytest.mark.flakiness(
    k=19, because="50,001 words have two pairs of equal ones with chance (50,001^2 / 2^65)^2"
)
@pytest.mark.parametrize("count", [0, 3, 16385, 50001])
def test_take_gives_what_is_asked(count):
    words = SecureWords().take(count)
    assert words.shape == (count,)
    assert words.dtype == np.uint64
    assert len(np.unique(words)) >= count - 1


def test_seeded_words_are_one_stream_however_taken():
    whole = SeededWords("a").take(40001)
    words = SeededWords("a")
    parts = [words.take(n) for n in (1, 2, 3, 0, 20000, 19995)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert not np.array_equal(SeededWords("b").take(5), whole[:5])
    assert not np.array_equal(SeededWords(1).take(5), SeededWords("1").take(5))


@pytest.mark.flakiness(
    k=14, because="400 words are distinct but for 400^2 / 2^65; 64 bits at 9 deviations: 1e-17"
)
def test_secure_streams_differ_and_are_uniform():
    streams = [SecureWords().take(4) for _ in range(100)]
    assert len(np.unique(np.concatenate(streams))) == 400
    # 2^20 words: each of 64 bits is set in half of them, to 9 standard deviations.
    words = SecureWords().take(1 << 20)
    set_bits = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).sum(axis=0, dtype=np.int64)
    assert np.abs(set_bits - 2**19).max() < 9 * 2**9


@pytest.mark.flakiness(k=17, because="six words of 64 bits are distinct but for 15 / 2^64")
def test_each_thread_has_its_own():
    with ThreadPoolExecutor(1) as pool:
        theirs, words = pool.submit(lambda: (default_words(), default_words().take(3))).result()
    assert theirs is not default_words() is default_words()
    assert len(np.unique([*words, *default_words().take(3)])) == 6


@pytest.mark.flakiness(k=17, because="eight words of 64 bits are distinct but for 28 / 2^64")
def test_a_fork_gets_a_fresh_key(in_child):
    words = default_words()
    words.take(3)
    theirs = in_child(lambda: words.take(4))
    ours = words.take(4)
    assert len(np.unique(np.concatenate([ours, theirs]))) == 8


@pytest.mark.noise_cannot_matter("it looks at which stream is in use")
def test_rekeying(monkeypatch):
    monkeypatch.setattr(module, "words_per_key", 100)
    words = SecureWords()
    stream = words._stream
    words.take(100)
    assert words._stream is stream
    words.take(1)
    assert words._stream is not stream


@pytest.mark.noise_cannot_matter("keys and messages are given")
def test_keyed_words_depend_on_the_key_and_on_the_message():
    words = [KeyedWords(bytes([k]) * 32, m).take(8) for k in (0, 1) for m in (b"", b"a")]
    assert len({tuple(each.tolist()) for each in words}) == 4


third = Fraction(1, 3)


@pytest.mark.noise_cannot_matter("it looks at shapes, and at coins of probability 0 and 1")
def test_shapes_and_sure_things():
    assert bernoulli(0) is False
    assert bernoulli(1) is True
    assert bernoulli("0.5", n=0).shape == (0,)
    assert bernoulli(0, n=1000).sum() == 0
    assert bernoulli(1, n=1000).sum() == 1000
    for word in (0, 2**64 - 1):
        assert bernoulli(1, words=FixedWords([word])) is True
        assert bernoulli(0, words=FixedWords([word])) is False
    assert bernoulli_each([third], np.zeros((2, 3), int)).shape == (2, 3)
    assert bernoulli_each([third], []).shape == (0,)


@pytest.mark.parametrize(
    "p", [third, Fraction(1, 2), Fraction(1, 2**64), Fraction(3, 2**70), 1 - Fraction(1, 2**80), 0.1]
)
def test_words_next_to_the_boundary(p):
    p = Fraction(p)
    exact = p * 2**64
    at = math.floor(exact)
    for word in (at - 1, at, at + 1):
        if not 0 <= word < 2**64:
            continue
        rest = math.floor((exact - at) * 2**64)
        for second in {max(rest - 1, 0), min(rest + 1, 2**64 - 1), 0, 2**64 - 1}:
            words = FixedWords([word, second], then=SeededWords(1))
            u = Fraction(word * 2**64 + second, 2**128)
            if u < p <= u + Fraction(1, 2**128) and p != u + Fraction(1, 2**128):
                continue
            assert bernoulli(p, words=words) is (u < p)
            # A second word is taken if and only if the first does not tell.
            undecided = word < exact < word + 1
            assert words.taken == 1 + undecided


def test_enclosures_give_the_same_coins():
    def enclose(bits):
        low = Fraction(math.floor(third * 2**bits), 2**bits)
        return low, low + Fraction(1, 2**bits)

    words = [*SeededWords(2).take(500).tolist(), 2**64 // 3, 2**64 // 3]
    further = [2**64 // 3 - 1, 2**64 // 3 + 1]
    of_fraction = bernoulli(third, n=502, words=FixedWords(words + further))
    of_enclosures = bernoulli(enclose, n=502, words=FixedWords(words + further))
    assert np.array_equal(of_fraction, of_enclosures)
    assert of_fraction[-2:].tolist() == [True, False]


def test_each_agrees_with_single_coins():
    probabilities = [Fraction(0), third, Fraction(1, 2), Fraction(1, 2**64), Fraction(1)]
    index = np.arange(5000) % 5
    words = SeededWords(3).take(5000)
    words[:5] = [0, 2**64 // 3, 2**63, 0, 2**64 - 1]
    coins = bernoulli_each(probabilities, index, FixedWords(words, then=SeededWords(4)))
    extra = SeededWords(4)
    for i in range(5000):
        single = FixedWords([words[i]], then=extra)
        assert coins[i] == bernoulli(probabilities[index[i]], words=single)


@pytest.mark.long
@pytest.mark.flakiness(
    k=14, because="Hoeffding's bound for 10^6 coins, five times; a planted 4% are three bounds"
)
def test_frequencies():
    n = 1_000_000
    bound = math.sqrt(math.log(2 / 1e-15) / (2 * n))  # 0.0042
    for p in (third, Fraction(1, 100), 0.9):
        assert abs(bernoulli(p, n=n, words=SecureWords()).mean() - float(p)) < bound
        assert abs(bernoulli(Fraction(p) * Fraction(96, 100), n=n).mean() - float(p)) > bound or p < 0.1
    coins = bernoulli_each([third, 0.9], np.arange(2 * n) % 2)
    assert abs(coins[0::2].mean() - 1 / 3) < bound
    assert abs(coins[1::2].mean() - 0.9) < bound


@pytest.mark.parametrize(
    "p", [-0.1, 1.1, float("nan"), "x", None, True, lambda bits: (Fraction(1), Fraction(0))]
)
def test_bad_probabilities(p):
    with pytest.raises(ParameterError):
        bernoulli(p)
    with pytest.raises(ParameterError):
        bernoulli_each([p], [0])
