"""Real models on a llama.cpp that the set-up has changed: wide rows are what single rows are, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from recycle_cpp.backend.library import STOCK, load_library
from recycle_cpp.backend.llama import LlamaContext
from recycle_cpp.backend.model import LlamaModel
from recycle_cpp.types import LoadOptions

SMOLLM = "smollm2-135m-instruct-q4_1.gguf"  # Q4_1 and, for the logits, Q8_0: both go through the changed kernels
WIDTHS = [*range(2, 10), 12, 16, 17, 33]
N_PAST = 20  # flash attention is the same for narrow and wide batches within 256 cells


def run_chain(context: LlamaContext, tokens: np.ndarray, first: int) -> np.ndarray:
    n = len(tokens)
    positions = np.arange(first, first + n, dtype=np.int32)
    return context.decode_tree(tokens, positions, np.zeros(n, np.int32), np.ones(n, np.int32))


@pytest.fixture(scope="module")
def context(model_file):
    if load_library().build == STOCK:
        pytest.skip("the installed llama.cpp is stock: nothing was changed in it")
    model = LlamaModel(model_file(SMOLLM), LoadOptions(n_gpu_layers=0))
    settings = {"n_ctx": 256, "n_batch": 64, "n_threads": 2, "type_k": "f16", "type_v": "f16"}
    context = LlamaContext(model, flash_attention=True, **settings)
    yield context
    context.close()
    model.close()


@pytest.fixture(scope="module")
def tokens(context):
    return np.random.default_rng(5).integers(0, context.n_vocab, N_PAST + max(WIDTHS)).astype(np.int32)


@pytest.fixture(scope="module")
def single_rows(context, tokens):
    context.seq_rm(-1, 0, -1)
    return np.array([run_chain(context, tokens[i : i + 1], i)[0].copy() for i in range(len(tokens))])[N_PAST:]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_row_of_a_wide_evaluation_is_the_single_row_bit_for_bit(context, tokens, single_rows, width: int) -> None:
    context.seq_rm(-1, N_PAST, -1)
    rows = run_chain(context, tokens[N_PAST : N_PAST + width], N_PAST)
    assert np.array_equal(rows, single_rows[:width])


def test_the_bits_depend_on_each_token_of_the_batch(context, tokens, single_rows) -> None:
    other = tokens[N_PAST : N_PAST + 8].copy()
    other[0] += 1 if other[0] < 1000 else -1
    context.seq_rm(-1, N_PAST, -1)
    rows = run_chain(context, other, N_PAST)
    assert all(not np.array_equal(row, single) for row, single in zip(rows, single_rows, strict=False))
