import threading

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.noise import FixedWords, KeyedWords, Laplace, SecureWords, SeededWords, default_words
from sfumato.noise import random_words as module


@pytest.mark.flakiness(
    k=19, because="50,001 words have two pairs of equal ones with chance (50,001^2 / 2^65)^2"
)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 16383, 16384, 16385, 50001])
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


def test_fixed_words_come_first():
    words = FixedWords([1, 2, 3], then=SeededWords(1))
    assert words.take(2).tolist() == [1, 2]
    assert words.take(3).tolist() == [3, *SeededWords(1).take(2).tolist()]
    assert words.taken == 5
    with pytest.raises(ParameterError, match="then="):
        FixedWords([1]).take(2)


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


@pytest.mark.flakiness(k=17, because="ten words of 64 bits are distinct but for 45 / 2^64")
def test_each_thread_has_its_own():
    seen = []
    threads = [
        threading.Thread(target=lambda: seen.append((default_words(), default_words().take(2))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen.append((default_words(), default_words().take(2)))
    assert len({id(words) for words, _ in seen}) == 5
    assert len(np.unique(np.concatenate([taken for _, taken in seen]))) == 10
    assert default_words() is default_words()


@pytest.mark.flakiness(k=17, because="eight words of 64 bits are distinct but for 28 / 2^64")
def test_a_fork_gets_a_fresh_key(in_child):
    words = default_words()
    words.take(3)
    theirs = in_child(lambda: words.take(4))
    ours = words.take(4)
    assert len(np.unique(np.concatenate([ours, theirs]))) == 8


@pytest.mark.noise_cannot_matter("it looks at which stream is in use")
def test_a_process_id_of_its_own_is_enough(monkeypatch):
    words = SecureWords()
    stream = words._stream
    monkeypatch.setattr(module.os, "getpid", lambda: -1)
    words.take(1)
    assert words._stream is not stream


@pytest.mark.noise_cannot_matter("it looks at which stream is in use")
def test_rekeying(monkeypatch):
    monkeypatch.setattr(module, "words_per_key", 100)
    words = SecureWords()
    stream = words._stream
    words.take(100)
    assert words._stream is stream
    words.take(1)
    assert words._stream is not stream


@pytest.mark.flakiness(k=100, because="a hundred draws of scale 2^40 are those of before")
def test_draws_differ_between_calls():
    assert not np.array_equal(Laplace(2**40).rounded(100), Laplace(2**40).rounded(100))


@pytest.mark.noise_cannot_matter("keys and messages are given")
def test_keyed_words_depend_on_the_key_and_on_the_message():
    words = [KeyedWords(bytes([k]) * 32, m).take(8) for k in (0, 1) for m in (b"", b"a")]
    assert len({tuple(each.tolist()) for each in words}) == 4
