"""Frozen records that several rooms share. Terms as in docs/structure.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, get_args

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    IntArray = NDArray[np.int32]
    FloatArray = NDArray[np.float32]

from recycle_cpp.errors import UsageError

FinishReason = Literal["stop", "length"]
DraftMode = Literal["auto", "tree", "chain", "off"]
FlashAttention = Literal["auto", "on", "off"]
CacheType = Literal["f32", "f16", "q8_0", "q4_0"]


class DraftTree(NamedTuple):
    """A draft tree in preorder: row 0 is the root, and children follow their parent in rank order.

    Preorder puts the likeliest path into the first rows, side by side, and makes the leaf paths below a node one
    range of numbers. The arrays are views that their drafter overwrites at its next draft.

    Attributes:
        tokens: int32[W], token ids; the root's is the pending token.
        parents: int32[W], row of the parent; -1 for the root.
        depths: int32[W], edges from the root.
        leaf_from: int32[W], number of the first leaf path through the node.
        leaf_count: int32[W], how many leaf paths go through the node, at least 1.
    """

    tokens: IntArray
    parents: IntArray
    depths: IntArray
    leaf_from: IntArray
    leaf_count: IntArray

    @property
    def width(self) -> int:
        """Rows in one evaluation, the root included."""
        return len(self.tokens)


class PhaseTimes(NamedTuple):
    """Seconds of one step by phase; `decode` is llama.cpp's, the rest is ours."""

    draft: float
    build: float
    decode: float
    top_k: float
    verify: float
    update: float
    commit: float

    @property
    def total(self) -> float:
        """Seconds of the whole step."""
        return sum(self)

    @property
    def host(self) -> float:
        """Seconds of the step outside llama.cpp."""
        return sum(self) - self.decode


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did.

    Attributes:
        tokens: the emitted tokens in order: the accepted path, then the bonus token.
        width: rows evaluated, the root included.
        times: seconds by phase.
        expected: tokens that the drafter promised, the bonus token included; 0 if it promises nothing.
        finish_reason: set on the last step of a run only.
    """

    tokens: tuple[int, ...]
    width: int
    times: PhaseTimes
    expected: float = 0.0
    finish_reason: FinishReason | None = None

    @property
    def n_accepted(self) -> int:
        """Accepted draft nodes; the root and the bonus token do not count."""
        return len(self.tokens) - 1


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How a token is chosen from a logits row. The default is greedy.

    Attributes:
        temperature: 0 is greedy; the filters below apply above 0 only.
        top_k: keep the k likeliest tokens; 0 keeps all.
        top_p: keep the smallest set whose probability reaches this; 1 keeps all.
        min_p: drop tokens below this share of the likeliest one's probability; 0 drops none.
        repeat_penalty: divide the logits of the last 64 tokens by this; 1 changes nothing. Applies when greedy too.
        seed: 32-bit seed of the random draws, below 4294967295; None draws a fresh one.
    """

    temperature: float = 0.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            UsageError: if a value is out of its range.
        """
        _require(_is_number(self.temperature, 0, 1e6), self, "temperature", "a number from 0 up")
        _require(_is_whole(self.top_k, 0), self, "top_k", "a whole number from 0 up")
        _require(_is_number(self.top_p, 0, 1), self, "top_p", "a number from 0 to 1")
        _require(_is_number(self.min_p, 0, 1), self, "min_p", "a number from 0 to 1")
        _require(_is_number(self.repeat_penalty, 0.01, 100), self, "repeat_penalty", "a number from 0.01 to 100")
        # llama.cpp takes 4294967295 for "draw a seed".
        _require(
            self.seed is None or (isinstance(self.seed, int) and 0 <= self.seed < 2**32 - 1),
            self,
            "seed",
            "a whole number from 0 to 4294967294",
        )

    @property
    def is_argmax(self) -> bool:
        """Whether the choice is the row's highest logit and nothing else."""
        return self.temperature == 0 and self.repeat_penalty == 1


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """What one request asks for.

    Attributes:
        max_tokens: emit at most this many; None goes on to the end of the context.
        sampling: how tokens are chosen.
        stop: strings that end the text; none of their bytes is delivered.
        draft: "auto" drafts at each step the tree, of whatever size, that promises most tokens per second by what was
            measured here; "tree" is the paper's static tree, "chain" a short chain, "off" plain decoding.
        exact: draft only what leaves the output byte-identical to plain decoding.
        raw: pass the prompt as it is, without the model's chat template.
    """

    max_tokens: int | None = None
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    stop: tuple[str, ...] = ()
    draft: DraftMode = "auto"
    exact: bool = False
    raw: bool = False

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            UsageError: if a value is out of its range.
        """
        _require(
            self.max_tokens is None or _is_whole(self.max_tokens, 1), self, "max_tokens", "a whole number from 1 up"
        )
        strings = isinstance(self.stop, tuple) and all(isinstance(stop, str) and stop for stop in self.stop)
        _require(strings, self, "stop", "a tuple of strings that are not empty")
        _require(isinstance(self.sampling, SamplingOptions), self, "sampling", "SamplingOptions")
        _require(self.draft in get_args(DraftMode), self, "draft", f"one of {', '.join(get_args(DraftMode))}")


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a model is loaded. None means: measured or taken from the model.

    Attributes:
        n_ctx: tokens that the context holds; None takes the trained length, at most 4096.
        n_batch: rows of one evaluation at most; prompts go through in chunks of this size.
        n_threads: threads for single rows; None measures how many are fastest here.
        n_gpu_layers: layers on the GPU; -1 all, 0 none.
        flash_attention: "auto" measures which is faster here and keeps the answer on disk.
        type_k: element type of the cache's keys.
        type_v: element type of the cache's values.
        n_threads_batch: threads for wider batches; None takes n_threads if that is given, else measures.
        verbose: let llama.cpp's own log through to standard error.
        learned: start from what drafting learned of this model in earlier runs, and keep what it learns now. The file
            holds tokens of prompts and answers; only the user can read it.
    """

    n_ctx: int | None = None
    n_batch: int = 512
    n_threads: int | None = None
    n_gpu_layers: int = -1
    flash_attention: FlashAttention = "auto"
    type_k: CacheType = "f16"
    type_v: CacheType = "f16"
    n_threads_batch: int | None = None
    verbose: bool = False
    learned: bool = True

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            UsageError: if a value is out of its range.
        """
        _require(self.n_ctx is None or _is_whole(self.n_ctx, 1), self, "n_ctx", "a whole number from 1 up")
        _require(_is_whole(self.n_batch, 1), self, "n_batch", "a whole number from 1 up")
        for name in ("n_threads", "n_threads_batch"):
            threads = getattr(self, name)
            _require(threads is None or _is_whole(threads, 1), self, name, "a whole number from 1 up")
        _require(_is_whole(self.n_gpu_layers, -1), self, "n_gpu_layers", "-1 or a whole number from 0 up")
        _require(self.flash_attention in ("auto", "on", "off"), self, "flash_attention", "auto, on or off")
        _require(self.type_k in get_args(CacheType), self, "type_k", f"one of {', '.join(get_args(CacheType))}")
        _require(self.type_v in get_args(CacheType), self, "type_v", f"one of {', '.join(get_args(CacheType))}")


@dataclass(frozen=True, slots=True)
class Timings:
    """Speed of one run, under llama-server's names where it has them.

    Attributes:
        prompt_n: prompt tokens evaluated (those already in the cache are not).
        prompt_ms: milliseconds that took.
        predicted_n: tokens emitted, an end-of-generation token included.
        predicted_ms: milliseconds from the end of the prompt to the last token.
        draft_n: nodes drafted, roots excluded.
        draft_n_accepted: nodes accepted.
        steps: evaluations.
        widths: how many steps evaluated each number of rows, the root included.
        host_ms: milliseconds of predicted_ms spent outside llama.cpp's evaluations.
        expected_n: tokens that the drafter promised in all; 0 if it promises nothing.
    """

    prompt_n: int
    prompt_ms: float
    predicted_n: int
    predicted_ms: float
    draft_n: int
    draft_n_accepted: int
    steps: int
    widths: dict[int, int]
    host_ms: float
    expected_n: float = 0.0

    @property
    def predicted_per_second(self) -> float:
        """Emitted tokens per second."""
        return 1000 * self.predicted_n / self.predicted_ms if self.predicted_ms > 0 else 0.0

    @property
    def mean_accepted_tokens(self) -> float:
        """Emitted tokens per step, bonus included (Spec-Bench's count)."""
        return self.predicted_n / self.steps if self.steps else 0.0

    @property
    def mean_width(self) -> float:
        """Rows per evaluation, the root included."""
        return sum(width * n for width, n in self.widths.items()) / self.steps if self.steps else 0.0

    @property
    def host_ms_per_step(self) -> float:
        """Milliseconds per step spent outside llama.cpp's evaluations."""
        return self.host_ms / self.steps if self.steps else 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one run, under OpenAI's names."""

    prompt_tokens: int
    completion_tokens: int

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a streamed answer: what one step added.

    `text` may be empty while a multi-byte character or a possible stop string is pending. The last chunk, and only it,
    has `finish_reason`, `usage` and `timings`.
    """

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    timings: Timings | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer: the join of its chunks."""

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    usage: Usage
    timings: Timings


class Message(NamedTuple):
    """One turn of a chat."""

    role: str
    content: str


class Vocabulary(Protocol):
    """What the text room asks of a tokenizer."""

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Return the token ids of a text."""

    def piece(self, token: int) -> bytes:
        """Return the bytes that a token adds to the text; empty for control tokens."""


def _is_whole(value: object, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value < 2**31


def _is_number(value: object, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _require(holds: bool, record: object, name: str, wanted: str) -> None:
    if not holds:
        value = getattr(record, name)
        raise UsageError(f"{name} is {value!r}; give {wanted}")
