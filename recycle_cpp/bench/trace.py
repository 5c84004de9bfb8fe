"""Traces: what a model said at every position of plain decoding, kept so that drafting can be replayed without it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recycle_cpp.bench.prompts import conversation
from recycle_cpp.bench.whole_file import written_whole
from recycle_cpp.drafting.matrix import TOP_K
from recycle_cpp.errors import PromptTooLongError, UsageError
from recycle_cpp.types import Message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from recycle_cpp.bench.prompts import BenchPrompt
    from recycle_cpp.runtime import Runtime
    from recycle_cpp.types import FloatArray, GenerateOptions, IntArray

FORMAT = "recycle-cpp trace 1"
MOST_TOKENS = 1 << 24  # of a vocabulary
FIELDS = ("prompts", "prompt_ends", "emitted", "emitted_ends", "top", "values", "categories", "n_vocab", "model")


@dataclass(frozen=True, slots=True)
class TracedTurn:
    """One decoded turn.

    Attributes:
        category: of its prompt.
        prompt: int32[n], its tokens.
        emitted: int32[m], the answer's.
        top: int32[m, k], the best candidates at each position, best first.
        values: float32[m, k], their logits.
    """

    category: str
    prompt: IntArray
    emitted: IntArray
    top: IntArray
    values: FloatArray


@dataclass(frozen=True, slots=True)
class Trace:
    """The turns of one model."""

    model: str
    n_vocab: int
    turns: tuple[TracedTurn, ...]

    def save(self, path: Path) -> None:
        """Write the trace beside its place and rename it.

        Raises:
            UsageError: if the file cannot be written.
        """
        arrays: dict[str, Any] = {
            "format": FORMAT,
            "model": self.model,
            "n_vocab": self.n_vocab,
            "categories": [turn.category for turn in self.turns],
            "prompts": np.concatenate([turn.prompt for turn in self.turns]),
            "prompt_ends": np.cumsum([len(turn.prompt) for turn in self.turns]),
            "emitted": np.concatenate([turn.emitted for turn in self.turns]),
            "emitted_ends": np.cumsum([len(turn.emitted) for turn in self.turns]),
            "top": np.concatenate([turn.top for turn in self.turns]),
            "values": np.concatenate([turn.values for turn in self.turns]),
        }
        with written_whole(path) as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def load(cls, path: Path) -> Trace:
        """Read a trace.

        Raises:
            UsageError: if the file cannot be read or is no trace.
        """
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
                if str(kept["format"]) != FORMAT:
                    raise ValueError
                arrays = {name: kept[name] for name in FIELDS}
                return cls(str(arrays["model"]), int(arrays["n_vocab"]), tuple(_turns(arrays)))
        except OSError as error:
            raise UsageError(f"{path} cannot be read ({error.strerror or error}): give a trace") from error
        except Exception as error:  # what numpy, zipfile and zlib raise for damaged files is listed nowhere
            raise UsageError(f"{path} is no trace: make one with `recycle-cpp trace`") from error


def _turns(arrays: dict[str, Any]) -> Iterator[TracedTurn]:
    """Yield the turns of a trace's arrays.

    Raises:
        ValueError: if they do not fit together, or name tokens outside the vocabulary.
    """
    prompts, emitted, top, values = (arrays[name] for name in ("prompts", "emitted", "top", "values"))
    if top.shape != (len(emitted), TOP_K) or values.shape != top.shape:
        raise ValueError("parts of different lengths, or rows of another width")
    texts, n_vocab = np.concatenate([prompts, emitted]), int(arrays["n_vocab"])
    if n_vocab > MOST_TOKENS:  # replaying takes memory for each
        raise ValueError("a vocabulary larger than any")
    if texts.dtype.kind != "i" or top.dtype.kind != "i":
        raise ValueError("tokens that are no integers")
    if texts.min() < 0 or top.min(initial=0) < -1 or max(texts.max(), top.max(initial=0)) >= n_vocab:
        raise ValueError("a token outside the vocabulary")
    prompt_ends = _ends(arrays["prompt_ends"], len(prompts))
    emitted_ends = _ends(arrays["emitted_ends"], len(emitted))
    prompt_start = emitted_start = 0
    for category, prompt_end, emitted_end in zip(arrays["categories"], prompt_ends, emitted_ends, strict=True):
        span = slice(emitted_start, emitted_end)
        yield TracedTurn(
            str(category),
            prompts[prompt_start:prompt_end].astype(np.int32),
            emitted[span].astype(np.int32),
            np.ascontiguousarray(top[span], np.int32),
            np.ascontiguousarray(values[span], np.float32),
        )
        prompt_start, emitted_start = prompt_end, emitted_end


def _ends(ends: NDArray[Any], n: int) -> list[int]:
    """Return where the parts of an array of n end.

    Raises:
        ValueError: if a part is empty, or they do not make up the whole.
    """
    if ends.dtype.kind != "i" or ends[-1] != n or np.diff(ends, prepend=0).min() < 1:
        raise ValueError("ends that are none")
    return [int(end) for end in ends]


def record_trace(runtime: Runtime, prompts: Sequence[BenchPrompt], options: GenerateOptions) -> Iterator[TracedTurn]:
    """Decode every turn of every prompt plainly, and yield what the model said at each position."""
    for prompt in prompts:
        messages: list[Message] = []
        for text in prompt.turns:
            messages.append(Message("user", text))
            request = conversation(messages, as_chat=runtime.is_chat and not options.raw)
            try:
                tokens = runtime.tokenize(request, raw=options.raw)
                completion, top, values = runtime.record(request, options)
            except PromptTooLongError:
                break
            emitted = np.array(completion.tokens, np.int32)
            yield TracedTurn(
                prompt.category, np.array(tokens, np.int32), emitted, top[: len(emitted)], values[: len(emitted)]
            )
            messages.append(Message("assistant", completion.text))
