"""One llama.cpp context, behind the few calls that the tree logic needs."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from recycle_cpp.backend.library import load_library
from recycle_cpp.errors import BackendError, CancelledError

if TYPE_CHECKING:
    import threading

    from recycle_cpp.backend.library import Log
    from recycle_cpp.backend.model import LlamaModel
    from recycle_cpp.types import CacheType, FloatArray, IntArray

MAX_WIDTH = 96  # rows of one evaluation; the published tree has 81
MAX_PATHS = MAX_WIDTH  # sequence ids: a tree has fewer leaf paths than nodes
_ABORTED = 2  # what llama_decode returns where the callback has stopped it
_GGML_TYPES: dict[CacheType, int] = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 8}


class LlamaContext:
    """A Context on a loaded model; not safe for use from two threads at once.

    Attributes:
        n_ctx: cells of the cache.
        n_batch: rows of one decode at most.
        n_vocab: length of a logits row.
        n_seq_max: sequence ids that may be used.
        can_shift: whether positions can be moved down over a gap.
    """

    def __init__(
        self,
        model: LlamaModel,
        *,
        n_ctx: int,
        n_batch: int,
        n_threads: int,
        n_threads_batch: int | None = None,
        flash_attention: bool,
        type_k: CacheType,
        type_v: CacheType,
    ) -> None:
        """Make the context; `n_threads_batch` are the threads for more rows than one, None for as many.

        Raises:
            BackendError: if llama.cpp refuses the settings or the memory is not there.
        """
        library = load_library()
        self._log = library.log
        self._c = c = library.c
        self._weights: Any = model.handle  # the context reads the model's memory: keep it alive
        params = c.llama_context_default_params()
        params.n_ctx = n_ctx
        params.n_batch = n_batch
        params.n_ubatch = min(n_batch, 512)
        params.n_seq_max = min(MAX_PATHS, int(c.llama_max_parallel_sequences()), n_ctx)
        # Logits are reserved for this many rows, not for n_batch: with a vocabulary of 262,144 that is 100 MB, not 537.
        params.n_outputs_max = max(MAX_WIDTH, params.n_seq_max)
        params.n_threads = n_threads
        params.n_threads_batch = n_threads_batch or n_threads
        params.flash_attn_type = 1 if flash_attention else 0
        params.type_k = _GGML_TYPES[type_k]
        params.type_v = _GGML_TYPES[type_v]
        params.kv_unified = True  # else the cells are split between the ids, and coupled ids are refused
        params.swa_full = True  # cells that several ids share are never recycled
        params.no_perf = True
        self._log.forget()
        self._handle = c.llama_init_from_model(self._weights, params)
        self._log.raise_interrupt()
        if not self._handle:
            raise BackendError(
                f"llama.cpp could not make a context of {n_ctx} tokens ({self._log.why()}): try a smaller one"
            )
        self._memory = c.llama_get_memory(self._handle)
        self.n_ctx = int(c.llama_n_ctx(self._handle))
        self.n_batch = int(c.llama_n_ubatch(self._handle))
        self.n_seq_max = int(params.n_seq_max)
        self.n_vocab = model.n_vocab
        # A recurrent memory moves positions, but cannot drop the tokens before them.
        self.can_shift = bool(c.llama_memory_can_shift(self._memory)) and model.can_branch
        self._stop = _Stop(c, self._log)
        self._prompt = _PromptBatch(c, self.n_batch)
        self._tree = _TreeBatch(c, min(MAX_WIDTH, self.n_batch), self.n_seq_max)

    def decode_prompt(self, tokens: IntArray, first: int, cancel: threading.Event | None = None) -> None:
        """Evaluate int32[n] tokens of sequence 0 from position `first` on, without logits.

        Raises:
            CancelledError: if `cancel` is set meanwhile; cells may be left to be removed.
            BackendError: if llama.cpp fails.
        """
        self._stop.watch(self._handle, cancel)
        try:
            self._decode(self._prompt.fill(tokens, first), len(tokens))
        finally:
            self._stop.watch(self._handle, None)

    def decode_tree(self, tokens: IntArray, positions: IntArray, seq_from: IntArray, seq_count: IntArray) -> FloatArray:
        """Evaluate one row per node and return float32[W, n_vocab], a view that dies at the next decode.

        Raises:
            BackendError: if llama.cpp fails.
        """
        n = len(tokens)
        self._decode(self._tree.fill(tokens, positions, seq_from, seq_count), n)
        address = ctypes.cast(self._c.llama_get_logits(self._handle), ctypes.c_void_p).value
        if not address:
            raise BackendError(f"llama.cpp gave no logits for {n} rows")
        rows = (ctypes.c_float * (n * self.n_vocab)).from_address(address)
        return np.ctypeslib.as_array(rows).reshape(n, self.n_vocab)

    def _decode(self, batch: Any, n: int) -> None:
        self._log.forget()
        status = self._c.llama_decode(self._handle, batch)
        self._log.raise_interrupt()
        if status == _ABORTED:
            raise CancelledError("the request was cancelled while its prompt was evaluated")
        if status != 0:
            raise BackendError(f"llama.cpp could not evaluate {n} tokens (status {status}): {self._log.why()}")

    def seq_rm(self, seq: int, first: int, last: int) -> None:
        """Take sequence `seq` (-1: all) off the cells at positions [first, last); last -1 is the end.

        Raises:
            BackendError: if the model's memory cannot forget a part of a sequence (recurrent models).
        """
        if (seq, first, last) == (-1, 0, -1):  # a recurrent memory refuses to remove all, but not to be emptied
            self._c.llama_memory_clear(self._memory, False)
        elif not self._c.llama_memory_seq_rm(self._memory, seq, first, last):
            raise BackendError(f"this model's memory cannot forget positions {first} to {last}: use --draft off")

    def seq_cp(self, source: int, target: int, first: int, last: int) -> None:
        """Add sequence `target` to the cells of `source` at positions [first, last)."""
        self._c.llama_memory_seq_cp(self._memory, source, target, first, last)

    def seq_add(self, seq: int, first: int, last: int, delta: int) -> None:
        """Add `delta` to the positions of the cells of a sequence at [first, last); last -1 is the end.

        Raises:
            BackendError: if this model's positions cannot be moved (llama.cpp would abort).
        """
        if not self.can_shift:
            raise BackendError("this model's memory cannot shift")
        self._c.llama_memory_seq_add(self._memory, seq, first, last, delta)

    def n_held(self, seq: int) -> int:
        """Return the position after the last cell of a sequence; 0 if it has none."""
        return int(self._c.llama_memory_seq_pos_max(self._memory, seq)) + 1

    def set_threads(self, n_threads: int, n_threads_batch: int) -> None:
        """Use this many threads for single rows, and for wider batches, from the next evaluation on."""
        self._c.llama_set_n_threads(self._handle, n_threads, n_threads_batch)

    def snapshot(self) -> bytes:
        """Return the cells of sequence 0 as bytes that `restore` takes."""
        size = self._c.llama_state_seq_get_size(self._handle, 0)
        buffer = (ctypes.c_uint8 * size)()
        n = self._c.llama_state_seq_get_data(self._handle, buffer, size, 0)
        return bytes(memoryview(buffer)[:n])

    def restore(self, data: bytes, seq: int) -> bool:
        """Put a snapshot's cells into the cache as sequence `seq`; False if they do not fit."""
        bytes_there = ctypes.cast(ctypes.c_char_p(data), ctypes.POINTER(ctypes.c_uint8))  # not copied, only read
        return bool(self._c.llama_state_seq_set_data(self._handle, bytes_there, len(data), seq))

    def close(self) -> None:
        """Free the memory. Safe to call twice."""
        if self._handle:
            self._c.llama_free(self._handle)
            self._handle = self._weights = None
            self._stop.close()


class _Stop:
    """Stops an evaluation from inside, by a callback that llama.cpp asks after every node of the graph.

    It is installed for prompts that can be cancelled only: asked hundreds of times per token, it would slow decoding.
    """

    def __init__(self, c: Any, log: Log) -> None:
        self._cancel: threading.Event | None = None
        self._log = log
        self._log.callbacks.append(self._asked)
        self._none = c.ggml_abort_callback()  # a null pointer
        self._callback = c.ggml_abort_callback(self._asked)  # kept: llama.cpp may hold it for as long as the context
        self._is_set = False
        self._install = c._lib.llama_set_abort_callback  # the bindings have no name for it
        self._install.argtypes = [ctypes.c_void_p, c.ggml_abort_callback, ctypes.c_void_p]
        self._install.restype = None

    def watch(self, handle: Any, cancel: threading.Event | None) -> None:
        """Let the next evaluation end early when the event is set; None lets it run."""
        if cancel is None and not self._is_set:
            return
        self._cancel = cancel
        self._is_set = True  # before the call: an interrupt may come between the two
        self._install(handle, self._none if cancel is None else self._callback, None)
        self._is_set = cancel is not None

    def close(self) -> None:
        """Take note that the context is gone. Safe to call twice."""
        if self._asked in self._log.callbacks:
            self._log.callbacks.remove(self._asked)

    def _asked(self, _data: object) -> bool:
        return self._log.is_interrupted or (self._cancel is not None and self._cancel.is_set())


def _pointer(array: np.ndarray[Any, Any], c_type: Any) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(c_type))


class _PromptBatch:
    """A llama_batch for prompt chunks: sequence 0, no logits; arrays made once."""

    def __init__(self, c: Any, capacity: int) -> None:
        self._tokens, self._positions = np.zeros((2, capacity), np.int32)
        self._ones = np.ones(capacity, np.int32)
        self._sequence = np.zeros(1, np.int32)
        self._sequences = np.full(capacity, self._sequence.ctypes.data, np.uintp)
        self._outputs = np.zeros(capacity, np.int8)
        self._batch = _batch(c, self._tokens, self._positions, self._ones, self._sequences, self._outputs)

    def fill(self, tokens: IntArray, first: int) -> Any:
        n = len(tokens)
        if n > len(self._tokens):
            raise BackendError(f"{n} tokens were given at once, {len(self._tokens)} are the most")
        self._tokens[:n] = tokens
        self._positions[:n] = np.arange(first, first + n, dtype=np.int32)
        self._batch.n_tokens = n
        return self._batch


class _TreeBatch:
    """A llama_batch for trees: a range of sequence ids per row, logits for every row; arrays made once."""

    def __init__(self, c: Any, capacity: int, n_seq_max: int) -> None:
        self._tokens, self._positions, self._counts = np.zeros((3, capacity), np.int32)
        self._ids = np.zeros((capacity, n_seq_max), np.int32)
        self._numbers = np.arange(n_seq_max, dtype=np.int32)
        first = self._ids.ctypes.data
        self._rows = (first + np.arange(capacity) * self._ids.strides[0]).astype(np.uintp)
        self._outputs = np.ones(capacity, np.int8)
        self._batch = _batch(c, self._tokens, self._positions, self._counts, self._rows, self._outputs)

    def fill(self, tokens: IntArray, positions: IntArray, seq_from: IntArray, seq_count: IntArray) -> Any:
        n = len(tokens)
        most = int(seq_count[0])  # the root carries every id
        self._tokens[:n] = tokens
        self._positions[:n] = positions
        self._counts[:n] = seq_count
        np.add(seq_from[:, None], self._numbers[:most], out=self._ids[:n, :most])
        self._batch.n_tokens = n
        return self._batch


def _batch(c: Any, tokens: Any, positions: Any, counts: Any, rows: Any, outputs: Any) -> Any:
    """Return a llama_batch over arrays that the caller keeps alive."""
    batch = c.llama_batch()
    batch.token = _pointer(tokens, ctypes.c_int32)
    batch.pos = _pointer(positions, ctypes.c_int32)
    batch.n_seq_id = _pointer(counts, ctypes.c_int32)
    batch.seq_id = ctypes.cast(rows.ctypes.data, ctypes.POINTER(ctypes.POINTER(ctypes.c_int32)))
    batch.logits = _pointer(outputs, ctypes.c_int8)
    return batch
