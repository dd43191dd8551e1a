"""The pages on private groups, parts of units, noise along a walk and keyed noise, held against the code."""

import hmac
import math
from collections import Counter
from fractions import Fraction
from hashlib import sha256
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

import sfumato as sf
from sfumato.budget.calibration import ROOM
from sfumato.budget.closed_forms import joined_delta
from sfumato.engines.worker_noise import digest
from sfumato.engines.worker_secret import EnvironmentSecret
from sfumato.measurements.group_selection import TruncatedGeometric
from sfumato.noise import KeyedWords
from sfumato.plan.noisy_trees import LeafCounts, noisy_tree
from sfumato.transformations.statistics.quantile_counts import BRANCHING, HEIGHT, LEAVES

# Private groups.


def plan_of(noise, selection="auto", groups=2, epsilon=1, delta="1/100", pre_threshold=1):
    data = pa.table({"id": [1], "group": ["a"], "x": [0.5]})
    question = sf.scan(data, privacy_unit="id").group_by("group").bound(groups=groups, rows=3)
    asked = question.agg(n=sf.count(), people=sf.count_units())
    options = {"noise": noise, "group_selection": selection, "pre_threshold": pre_threshold}
    return asked.plan(epsilon=epsilon, delta=delta, **options)


def rounded(law, reach):
    """The rounded law on -reach to reach; what lies beyond is added to the ends."""
    below = np.array(law.rounded_cdf(list(range(-reach, reach))), np.float64)
    return np.diff(np.concatenate([[0.0], below, [1.0]]))


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("groups", [1, 2, 5])
@pytest.mark.parametrize("pre_threshold", [1, 4])
def test_a_plan_charges_a_threshold_as_the_page_says(noise, groups, pre_threshold):
    plan = plan_of(noise, noise, groups, pre_threshold=pre_threshold)
    rule, law = plan.selection, plan.laws["units"]
    shown = law.rounded_sf(rule.tau - 2)  # P(1 + round(Z) >= tau)
    assert shown <= float(rule.delta_per_group) * (1 + 1e-12)
    share = plan.delta * (1 - ROOM) / (1 if noise == "laplace" else 2)
    assert share * (1 - Fraction(1, 2**60)) <= plan.loss.additive_delta <= share
    assert joined_delta(rule.delta_per_group, groups) <= share
    # All noise is charged as if the groups were public.
    public = plan.loss.delta(plan.epsilon) - plan.loss.additive_delta
    eta = joined_delta(rule.delta_per_group, groups)
    assert eta + (1 - eta) * public <= plan.loss.delta(plan.epsilon) <= plan.delta


@pytest.mark.long
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_divergence_of_a_whole_release_is_what_the_page_says(noise):
    """One group that both have, with its number of units and of rows, and one that is lone: exactly, but for floats."""
    plan = plan_of(noise, noise)
    epsilon, tau, reach = float(plan.epsilon), plan.selection.tau, 400
    units, rows = rounded(plan.laws["units"], reach), rounded(plan.laws["rows"], reach)
    # At the ends, which a shift carries from one to the other, there is next to nothing.
    assert plan.steps["rows"] == 1 and rows[:3].sum() < 1e-12

    def released(more):
        """The law of the group that both have: suppressed, or both noisy numbers. `more` is the unit's own share."""
        n = np.roll(units, more)
        r = np.roll(rows, 3 * more)
        shown = np.arange(-reach, reach + 1) + 20 >= tau
        return np.concatenate([[n[~shown].sum()], np.outer(n[shown], r).ravel()])

    without, with_unit = released(0), released(1)
    lone = plan.laws["units"].rounded_sf(tau - 2)
    factor = math.exp(epsilon)
    forth = np.maximum((1 - lone) * with_unit - factor * without, 0).sum() + lone
    back = np.maximum(without - factor * (1 - lone) * with_unit, 0).sum()
    # The whole second group is in eta: its other number, whatever it is, adds nothing.
    assert max(forth, back) <= float(plan.delta) * (1 + 1e-9)
    # And none of it can be left out: the threshold alone is a good part of what is charged.
    assert forth >= lone > float(plan.selection.delta_per_group) / 20


def test_truncated_geometric_selection_is_charged_beside_the_noise():
    plan = plan_of("laplace", "truncated_geometric", groups=3)
    rule = plan.selection
    assert isinstance(rule, TruncatedGeometric)
    (selected,) = plan.loss.approximate
    assert selected == (rule.epsilon, rule.delta, 3)
    assert plan.loss.additive_delta == 0
    assert plan.loss.delta(plan.epsilon) <= plan.delta


# Parts of units.


def losses(move, r):
    """The law of the loss of discrete Laplace noise moved so far, in steps over its scale."""
    if not move:
        return Counter({0: 1})
    law = Counter({move: 1 / (1 + r)})
    law.update({move - 2 * x: (1 - r) / (1 + r) * r**x for x in range(1, move)})
    law[-move] += r**move / (1 + r)
    return law


def of_both(one, other, r):
    law = Counter()
    for x, p in losses(one, r).items():
        for y, q in losses(other, r).items():
            law[x + y] += p * q
    return law


@pytest.mark.parametrize("r", [Fraction(1, 10), Fraction(9, 10)])
def test_moves_lose_more_in_fewer_groups_as_the_page_says(r):
    for a in range(1, 6):
        for b in range(1, a + 1):
            equal, unequal = of_both(a, b, r), of_both(a + 1, b - 1, r)
            assert sum(equal.values()) == sum(unequal.values()) == 1
            spread = Counter()
            for i in range(b - 1, a):
                for j, part in enumerate((1, -(1 + r**2), r**2)):
                    spread[a + b - 2 * (i + j)] += r ** (i + 1) * part
            assert all((1 + r) ** 2 * (unequal[x] - equal[x]) == spread[x] for x in {*equal, *unequal})
            for least in range(-a - b, a + b):
                delta = [
                    sum(p * max(0, 1 - r ** (x - least)) for x, p in law.items()) for law in (equal, unequal)
                ]
                assert delta[0] <= delta[1]


# Noise along a walk.


class Recorded(LeafCounts):
    """Leaf counts that remember which nodes were looked at, and a law that gives each node its own noise."""

    @classmethod
    def of(cls, leaves, groups):
        position = np.sort(leaves)
        found = cls(position, np.arange(len(position) + 1, dtype=np.int64), groups)
        object.__setattr__(found, "asked", [])
        return found

    def between(self, edges):
        self.asked.append(edges[:, :-1].ravel())
        return super().between(edges)


def beforehand(counts, groups, seed=1):
    """A law that reads its noise from a table of all nodes, drawn at once."""
    rng = np.random.default_rng(seed)
    table = [rng.integers(-3, 4, groups * BRANCHING ** (level + 1)) for level in range(HEIGHT)]

    def given(size, words=None):
        level = len(counts.asked) - 1
        nodes = counts.asked[-1] // (LEAVES // BRANCHING ** (level + 1))
        assert len(nodes) == size
        return table[level][nodes]

    return SimpleNamespace(rounded=given, standard_deviation=2.0)


def test_a_walk_sees_what_it_would_see_of_noise_drawn_beforehand():
    """Whichever other ranks are asked for: the noise belongs to the nodes, not to the walks."""
    groups = 5
    leaves = np.random.default_rng(2).integers(0, groups * LEAVES, 3000)
    alone, found = {}, None
    for ranks in ((0.1,), (0.5,), (0.9,), (0.1, 0.5, 0.9)):
        counts = Recorded.of(leaves, groups)
        tree = noisy_tree(counts, beforehand(counts, groups), ranks)
        if len(ranks) == 1:
            alone[ranks[0]] = tree
        else:
            found = tree
    for i, rank in enumerate((0.1, 0.5, 0.9)):
        np.testing.assert_array_equal(found.values[:, i], alone[rank].values[:, 0])
        for kept in ("low", "high", "below", "upto", "total"):
            np.testing.assert_array_equal(getattr(found, kept), getattr(alone[rank], kept))


def test_no_node_is_drawn_twice():
    groups = 7
    counts = Recorded.of(np.random.default_rng(3).integers(0, groups * LEAVES, 2000), groups)
    noisy_tree(counts, beforehand(counts, groups), (0.25, 0.5, 0.5, 0.75))
    assert len(counts.asked) == HEIGHT
    for asked in counts.asked:
        assert len(np.unique(asked)) == len(asked)
    assert sum(map(len, counts.asked)) < groups * LEAVES


# Keyed noise.


def stream(key, blocks):
    """AES in counter mode from nonce 0, block by block."""
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return cipher.update(b"".join(j.to_bytes(16, "big") for j in range(blocks)))


def test_the_words_of_a_message_are_what_the_page_says(monkeypatch):
    secret, release, message = sha256(b"of the page").digest(), bytes(range(32, 64)), b"a batch"
    monkeypatch.setenv("OF_THE_PAGE", secret.hex())
    found = EnvironmentSecret("OF_THE_PAGE")._seal()._key(release)
    key = hmac.digest(secret, b"sfumato release " + release, "sha256")
    assert found == key
    words = KeyedWords(key, message).take(2000)
    assert words.tobytes() == stream(hmac.digest(key, message, "sha256"), 1000)
    # In pieces it is the same stream, and of another message it is none like it.
    again = KeyedWords(key, message)
    assert np.concatenate([again.take(2), again.take(1998)]).tobytes() == words.tobytes()
    assert not np.isin(KeyedWords(key, message + b"!").take(2000), words).any()


def test_different_batches_have_different_messages():
    batches = [
        {"g": ["a"], "n": [1]}, {"g": ["a"], "n": [2]}, {"g": ["b"], "n": [1]}, {"g": ["a", "b"], "n": [1, 1]},
        {"g": ["ab", ""], "n": [1, 1]}, {"g": ["", "ab"], "n": [1, 1]}, {"g": [None], "n": [1]}, {"g": [""], "n": [1]},
        {"g": ["a"], "n": [1.0]}, {"g": [b"a"], "n": [1]}, {"g": [["a"], []], "n": [1, 1]}, {"g": [[], ["a"]], "n": [1, 1]},
    ]  # fmt: skip
    messages = [digest(pa.RecordBatch.from_pydict(b)) for b in batches]
    assert len(set(messages)) == len(batches)
    assert digest(pa.RecordBatch.from_pydict(batches[3])) == messages[3]
