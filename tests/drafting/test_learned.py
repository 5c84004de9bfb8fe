"""Learned state as bytes: it comes back whole or is refused, and what is refused leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from fakes import write_rows
from hypothesis import given
from hypothesis import strategies as st

from recycle_cpp.drafting.calibration import CARRIED_TRIALS
from recycle_cpp.drafting.kernels.mixing import FORGET_AT
from recycle_cpp.drafting.knowledge import Knowledge
from recycle_cpp.drafting.learned import CHECK_BYTES, Learned, pack, unpack

N_VOCAB = 60
ALWAYS, NEVER = 0.0, 1e9  # seconds between two savings


def taught(n_vocab: int = N_VOCAB, seed: int = 0) -> Knowledge:
    """Return knowledge with something in each of its arrays."""
    rng = np.random.default_rng(seed)
    knowledge = Knowledge(n_vocab)
    write_rows(knowledge.matrix, rng.permutation(n_vocab)[:30], rng.integers(0, n_vocab, (30, 8)))
    for _ in range(3):
        knowledge.suffix.begin(rng.integers(0, n_vocab, 40).tolist() * 2)
    knowledge.frequent.append(rng.integers(0, n_vocab, 60).astype(np.int32))
    counts = knowledge.calibration.belief
    counts.weights[:] += rng.uniform(-0.1, 0.1, counts.weights.shape).astype(np.float32)
    counts.trials[:] = rng.integers(0, 500, len(counts.trials))
    counts.hits[:] = counts.trials * rng.uniform(0, 1, len(counts.trials))
    return knowledge


def copies(knowledge: Knowledge) -> dict[str, np.ndarray]:
    return {name: array.copy() for name, array in knowledge.arrays().items()}


def equal(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


EMPTY = copies(Knowledge(N_VOCAB))
TAUGHT = taught()
PACKED = pack(TAUGHT.arrays(), "model a")


class MemoryStore:
    """Keeps bytes in memory; counts what is written.

    Attributes:
        fault: raised instead, if there is one.
    """

    def __init__(self, data: bytes | None = None, fault: OSError | None = None) -> None:
        self.data = data
        self.written = 0
        self.fault = fault

    def read(self) -> bytes | None:
        if self.fault is not None:
            raise self.fault
        return self.data

    def write(self, data: bytes) -> None:
        if self.fault is not None:
            raise self.fault
        self.data = data
        self.written += 1


def read_by_kernels(knowledge: Knowledge) -> set[int]:
    """Return which arrays the kernels hold; that of the sources in use is no knowledge."""
    sources = knowledge.sources._replace(history=None, in_use=None)
    beliefs = (*knowledge.calibration.belief, *knowledge.sampled.belief)
    arrays = (*sources, *knowledge.sources.history, *beliefs)
    return {id(array) for array in arrays if array is not None}


def test_what_is_packed_comes_back_the_same() -> None:
    assert equal(unpack(PACKED, Knowledge(N_VOCAB).arrays(), "model a"), copies(TAUGHT))


def test_knowledge_is_taken_over_into_the_very_arrays_that_kernels_hold() -> None:
    knowledge = Knowledge(N_VOCAB)
    held = read_by_kernels(knowledge)
    knowledge.adopt(TAUGHT.arrays())
    assert read_by_kernels(knowledge) == held
    mine, given_ = copies(knowledge), copies(TAUGHT)
    for name in mine:
        assert name.startswith(("calibration.", "sampled.")) or np.array_equal(mine[name], given_[name]), name
    assert (knowledge.matrix.n_rows, knowledge.suffix.count) == (30, TAUGHT.suffix.count)


def test_every_array_that_a_kernel_reads_is_among_those_that_are_kept() -> None:
    knowledge = Knowledge(N_VOCAB)
    kept = {id(array) for array in knowledge.arrays().values()}
    beliefs = knowledge.calibration.belief, knowledge.sampled.belief
    follow = {
        id(array) for belief in beliefs for array in (belief.prior, belief.odds)
    }  # from the code, and from the kept counts
    assert read_by_kernels(knowledge) <= kept | follow


def test_counts_from_disk_keep_their_rates_but_not_their_weight() -> None:
    knowledge = Knowledge(N_VOCAB)
    knowledge.adopt(TAUGHT.arrays())
    before, after = TAUGHT.calibration.belief, knowledge.calibration.belief
    many = before.trials > CARRIED_TRIALS
    assert many.sum() > 50
    assert after.trials.max() <= CARRIED_TRIALS
    assert np.allclose(after.hits[many] / after.trials[many], before.hits[many] / before.trials[many], atol=1e-5)
    few = ~many
    assert np.array_equal(after.trials[few], before.trials[few])
    assert np.isfinite(after.odds).all()


def test_weights_from_disk_come_half_the_way_back() -> None:
    knowledge = Knowledge(N_VOCAB)
    fresh = knowledge.calibration.belief.weights.copy()
    knowledge.adopt(TAUGHT.arrays())
    learned = TAUGHT.calibration.belief.weights
    assert np.allclose(knowledge.calibration.belief.weights, (fresh + learned) / 2)


def test_odds_follow_from_the_counts_that_come_back() -> None:
    knowledge = taught()
    belief = knowledge.calibration.belief
    belief.trials[:] = FORGET_AT
    belief.hits[:] = np.where(np.arange(len(belief.hits)) % 2, 0, FORGET_AT)
    fresh = Knowledge(N_VOCAB)
    fresh.adopt(knowledge.arrays())
    odds = fresh.calibration.belief.odds
    assert odds[::2].min() > 0 > odds[1::2].max()


@given(place=st.integers(0, len(PACKED) - 1), bit=st.integers(0, 7))
def test_any_bit_that_flips_is_found(place: int, bit: int) -> None:
    damaged = bytearray(PACKED)
    damaged[place] ^= 1 << bit
    refused(bytes(damaged))


@given(st.integers(0, len(PACKED) - 1), st.sampled_from([b"", b"\0", b"x" * 100]))
def test_bytes_cut_off_anywhere_or_replaced_behind_it_are_found(end: int, tail: bytes) -> None:
    refused(PACKED[:end] + tail)


@pytest.mark.parametrize("data", [b"", b"\0", b"x" * 15, b"x" * 16, b"x" * 17, b"\xff" * 5000, PACKED + b"\0"])
def test_what_never_was_one_of_ours_is_refused(data: bytes) -> None:
    refused(data)


def refused(data: bytes, model: str = "model a", n_vocab: int = N_VOCAB) -> None:
    knowledge = Knowledge(n_vocab)
    note = Learned(knowledge, MemoryStore(data), model).load()
    assert note.startswith("drafting starts with nothing: ")
    assert "\n" not in note
    assert knowledge.is_empty
    assert equal(copies(knowledge), copies(Knowledge(n_vocab)))


def test_the_state_of_another_model_or_vocabulary_is_refused() -> None:
    refused(PACKED, model="model b")
    refused(PACKED, n_vocab=N_VOCAB + 1)


def sealed(knowledge: Knowledge) -> bytes:
    """Return faulty knowledge with a checksum that holds, as a faulty version may have written it."""
    return pack(knowledge.arrays(), "model a")


FAULTS = {
    "an owner far below zero": lambda k: k.matrix.owner.__setitem__(40, -(10**9)),
    "an owner outside the vocabulary": lambda k: k.matrix.owner.__setitem__(0, N_VOCAB),
    "a row that no one made": lambda k: k.matrix.row_of.__setitem__(k.matrix.row_of.argmin(), 59),
    "a candidate outside the vocabulary": lambda k: k.matrix.rows.__setitem__((3, 3), N_VOCAB),
    "a token outside the vocabulary": lambda k: k.suffix.history.tokens.__setitem__(5, N_VOCAB),
    "a token below the border": lambda k: k.suffix.history.tokens.__setitem__(5, -2),
    "a link to itself": lambda k: k.suffix.history.older_pair.__setitem__(50, 50),
    "a link ahead": lambda k: k.suffix.history.older_pair.__setitem__(50, 51),
    "a link to nowhere": lambda k: k.suffix.history.older_pair.__setitem__(50, -7),
    "a link where nothing is yet": lambda k: k.suffix.history.older_pair.__setitem__(16_000, 2),
    "a head ahead": lambda k: k.suffix.history.newest_single.__setitem__(9, k.suffix.count),
    "a head to nowhere": lambda k: k.suffix.history.newest_single.__setitem__(9, -2),
    "a link of single tokens ahead": lambda k: k.suffix.history.older_single.__setitem__(50, 51),
    "a frequent token outside the vocabulary": lambda k: k.frequent.tokens.__setitem__(2, N_VOCAB),
    "a frequent token twice": lambda k: k.frequent.tokens.__setitem__(2, k.frequent.tokens[1]),
    "a frequency that is no number": lambda k: k.frequent.counts.__setitem__(2, np.nan),
    "a weight that is no number": lambda k: k.calibration.belief.weights.__setitem__((3, 1), np.nan),
    "a history without end": lambda k: setattr(k.suffix, "count", 2**31 - 1),
    "a history of less than nothing": lambda k: setattr(k.suffix, "count", -1),
    "rows of less than nothing": lambda k: setattr(k.matrix, "_made", -1),
    "rows that were never made": lambda k: setattr(k.matrix, "_made", 31),
    "a count that is no number": lambda k: k.calibration.belief.trials.__setitem__(3, np.nan),
    "an endless count": lambda k: k.calibration.belief.trials.__setitem__(3, np.inf),
    "a hit less than none": lambda k: k.calibration.belief.hits.__setitem__(3, -1),
    "more hits than trials": lambda k: k.calibration.belief.hits.__setitem__(3, 501),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_that_could_mislead_a_kernel_comes_in_or_is_written(fault: str) -> None:
    knowledge = taught()
    FAULTS[fault](knowledge)
    refused(sealed(knowledge))
    store = MemoryStore()
    Learned(knowledge, store, "model a").save()
    assert store.data is None


def test_arrays_of_other_names_types_or_shapes_are_refused_and_nothing_is_known_then() -> None:
    arrays = TAUGHT.arrays()
    name = "matrix.rows"
    missing = {other: array for other, array in arrays.items() if other != name}
    for wrong in (
        missing,
        {**arrays, "matrix.more": arrays[name]},
        {**arrays, name: arrays[name].astype(np.int64)},
        {**arrays, name: arrays[name][:-1]},
        {**arrays, name: arrays[name].T},
    ):
        knowledge = taught(seed=1)
        with pytest.raises(ValueError, match="not those"):
            knowledge.adopt(wrong)
        assert equal(copies(knowledge), EMPTY)


@pytest.mark.parametrize("wraps", [False, True])
def test_a_history_of_any_length_is_whole(wraps: bool) -> None:
    knowledge = taught()
    rng = np.random.default_rng(3)
    for _ in range(90 if wraps else 1):
        knowledge.suffix.begin(rng.integers(0, N_VOCAB, 400).tolist())
        knowledge.check_integrity()
    again = Knowledge(N_VOCAB)
    again.adopt(knowledge.arrays())
    assert again.suffix.count == knowledge.suffix.count


def test_a_vocabulary_of_any_size_is_whole() -> None:
    for n_vocab in (49_152, 262_144):
        knowledge = Knowledge(n_vocab)
        Knowledge(n_vocab).adopt(knowledge.arrays())
        assert len(pack(knowledge.arrays(), "m")) < 2_000_000


def test_nothing_is_written_unless_something_was_learned() -> None:
    store = MemoryStore()
    knowledge = Knowledge(N_VOCAB)
    learned = Learned(knowledge, store, "model a")
    learned.save()
    assert store.data is None
    knowledge.adopt(TAUGHT.arrays())
    for _ in range(2):
        learned.save()
        assert store.written == 1
    again = Learned(Knowledge(N_VOCAB), store, "model a")
    assert again.load() == ""
    again.save()
    assert store.written == 1
    knowledge.suffix.append([5])
    learned.save()
    assert store.written == 2


def test_forgetting_leaves_what_is_kept_until_something_new_is_learned() -> None:
    store = MemoryStore(PACKED)
    knowledge = Knowledge(N_VOCAB)
    learned = Learned(knowledge, store, "model a")
    assert learned.load() == ""
    knowledge.reset()
    learned.save()
    assert store.data == PACKED
    knowledge.suffix.begin([1, 2, 3])
    learned.save()
    assert store.written == 1


@pytest.mark.parametrize(("interval", "written"), [(ALWAYS, 3), (NEVER, 0)])
def test_savings_between_requests_wait_for_the_interval(interval: float, written: int) -> None:
    store = MemoryStore()
    knowledge = taught()
    learned = Learned(knowledge, store, "model a", interval)
    for token in range(3):
        knowledge.suffix.append([token])
        learned.save_if_due()
    assert store.written == written


def test_a_store_that_fails_is_no_error() -> None:
    store = MemoryStore(PACKED, PermissionError(13, "Permission denied"))
    learned = Learned(taught(), store, "model a")
    learned.save()
    assert store.written == 0
    assert learned.load() == "drafting starts with nothing: what was kept is refused (Permission denied)"
    store.fault = None
    knowledge = Knowledge(N_VOCAB)
    assert Learned(knowledge, None, "model a").load() == ""
    assert knowledge.is_empty


def test_the_head_says_in_text_what_the_file_is() -> None:
    lines = PACKED.split(b"\n\n")[0].decode().splitlines()
    assert lines[:2] == ["recycle-cpp learned state 1", "model model a"]
    assert "matrix.rows <i4 (60, 8)" in lines
    assert len(PACKED) > CHECK_BYTES + sum(array.nbytes for array in TAUGHT.arrays().values())


def test_the_hash_of_two_tokens_is_that_of_every_process(tmp_path) -> None:
    (tmp_path / "state").write_bytes(PACKED)
    program = (
        "import sys, pathlib\n"
        "from recycle_cpp.drafting.learned import unpack\n"
        "from recycle_cpp.drafting.knowledge import Knowledge\n"
        f"k = Knowledge({N_VOCAB}); data = pathlib.Path(sys.argv[1]).read_bytes()\n"
        "k.adopt(unpack(data, k.arrays(), 'model a'))\n"
        "n, history = k.suffix.count, k.suffix.history\n"
        "k.suffix.append(history.tokens[n - 40 : n])\n"
        "print(history.older_pair[(n + 1) : (n + 40)].min())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "state")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) >= 0, "every pair of the last text is found again"
