"""Arms that are not ours: llama-cpp-python's own Llama, as it comes and with its prompt lookup."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from recycle_cpp.bench.arms import Answer
from recycle_cpp.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recycle_cpp.bench.arms import Question
    from recycle_cpp.runtime import Runtime
    from recycle_cpp.types import LoadOptions

# llama.cpp rounds a context up to a multiple of this; Llama does not, and then drafts past the end of its own arrays.
CONTEXT_STEP = 256
LOOKUP_ON_CPU, LOOKUP_ON_GPU = 2, 10  # tokens that its README recommends without a GPU, and its default


class LlamaArm:
    """llama_cpp.Llama, decoding greedily."""

    def __init__(self, name: str, llama: Any, n_ctx: int, settings: dict[str, object]) -> None:
        self.name = name
        self.settings = settings
        self._llama = llama
        self._n_ctx = n_ctx

    def generate(self, question: Question, max_tokens: int) -> Answer:
        """Decode with Llama.generate; the first token comes from the prompt's own evaluation and is not timed."""
        from llama_cpp import llama_cpp as c

        vocab = c.llama_model_get_vocab(self._llama.model)
        limit = min(max_tokens, self._n_ctx - len(question.tokens) + 1)
        tokens: list[int] = []
        clock = [time.perf_counter()]
        with contextlib.closing(self._llama.generate(question.tokens, temp=0.0, repeat_penalty=1.0)) as stream:
            for token in stream:
                clock.append(time.perf_counter())
                tokens.append(int(token))
                if len(tokens) == limit or c.llama_vocab_is_eog(vocab, token):
                    break
        return Answer(tuple(tokens), "", len(tokens) - 1, clock[-1] - clock[1], clock[1] - clock[0])

    def forget(self) -> None:
        """Drop the cached prompt: it learns nothing else."""
        self._llama.reset()

    def forget_prompt(self) -> None:
        """Drop the cached prompt."""
        self._llama.reset()


@contextlib.contextmanager
def open_arm(name: str, runtime: Runtime, loading: LoadOptions) -> Iterator[LlamaArm]:
    """Load a model once more, by llama_cpp.Llama, and free it at the end.

    Args:
        name: "lookup" has the runtime's settings, "binding" Llama's defaults but for the context's size.
        runtime: says the settings in use.
        loading: how the runtime was loaded.

    Raises:
        BackendError: if Llama refuses.
    """
    import llama_cpp
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    settings: dict[str, Any] = {"n_ctx": -(-runtime.n_ctx // CONTEXT_STEP) * CONTEXT_STEP}
    draft: dict[str, Any] = {}
    if name == "lookup":
        settings |= _settings_of(runtime.facts)
        on_gpu = llama_cpp.llama_supports_gpu_offload() and loading.n_gpu_layers != 0
        draft = {"num_pred_tokens": LOOKUP_ON_GPU if on_gpu else LOOKUP_ON_CPU}
        # Without logits_all its table of logits has n_batch rows, and a longer text runs past it.
        settings |= {"logits_all": True}
    model = LlamaPromptLookupDecoding(**draft) if draft else None
    try:
        llama: Any = llama_cpp.Llama(str(runtime.path), verbose=loading.verbose, draft_model=model, **settings)
    except (ValueError, RuntimeError, MemoryError) as error:
        raise BackendError(f"llama_cpp.Llama refuses the arm {name} ({error}): leave it out of --arms") from error
    with contextlib.closing(llama):
        yield LlamaArm(name, llama, runtime.n_ctx, {**settings, **draft, "n_threads": llama.n_threads})


def _settings_of(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the runtime's settings as Llama calls them."""
    import llama_cpp

    type_k, type_v = (getattr(llama_cpp, f"GGML_TYPE_{name.upper()}") for name in facts["cache"].split())
    return {
        "n_batch": facts["batch"],
        "n_threads": facts["n_threads"],
        "n_threads_batch": facts["n_threads_batch"],
        "n_gpu_layers": facts["gpu_layers"],
        "flash_attn": facts["flash_attention"],
        "type_k": type_k,
        "type_v": type_v,
    }
