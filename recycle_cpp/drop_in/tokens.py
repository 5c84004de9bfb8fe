"""The lower half of the class: one loaded model, tokens in and out of it, step by step if that is wanted."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recycle_cpp.drop_in.asked import RANDOM_SEED, Choosing, whole_seed
from recycle_cpp.drop_in.loading import load
from recycle_cpp.drop_in.refusals import BadArgumentError, NotOfferedError
from recycle_cpp.drop_in.streams import OpenStreams
from recycle_cpp.drop_in.vocabulary import ModelFace
from recycle_cpp.types import GenerateOptions

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence
    from types import TracebackType

    from llama_cpp.llama import LlamaState
    from llama_cpp.llama_tokenizer import LlamaTokenizer
    from numpy.typing import NDArray

    from recycle_cpp.types import Chunk, SamplingOptions

_NEARBY = 16  # tokens before one that may change its text, for a tokenizer of the caller's own
_ARGUMENTS = {"n_threads", "n_threads_batch", "numa", "tensor_split", "kv_overrides", "lora_base", "lora_path"}
_NO_ROWS = "recycle_cpp keeps no logits; ask for logprobs, or let a logits_processor see each row"
_NO_CONTEXT = "llama.cpp's context belongs to recycle_cpp alone; use reset, eval and n_tokens, or llama_cpp.Llama"
_NOT_HERE = {
    **dict.fromkeys(("scores", "_scores", "eval_logits"), _NO_ROWS),
    **dict.fromkeys(("ctx", "_ctx", "_batch", "_sampler", "context_params", "model", "model_params"), _NO_CONTEXT),
}


class TokenLevel:
    """One loaded model under llama_cpp's names.

    What `eval` is given is noted, and evaluated when the next token is asked for: only what the prompt cache lacks.

    Attributes:
        verbose: say on standard error what happens.
        model_path: the file, as it was given.
        metadata: what its header says.
        last_n_tokens_size: tokens that penalties look back on.
        n_batch: rows of one evaluation at most.
        tokenizer_: turns text into tokens and back.
        cache: what `set_cache` was given; the prompt cache is built in and needs none.
    """

    def __init__(self, asked: Mapping[str, Any]) -> None:
        """Load the model; errors as `load` raises them.

        Args:
            asked: the arguments of `Llama`, by their names.
        """
        self._arguments = dict(asked)
        self._runtime = runtime = load(asked)
        self._finalizer = weakref.finalize(self, runtime.close)
        self._streams = OpenStreams()
        self._model = ModelFace(runtime)
        self._tokens: list[int] = []
        self._seed = whole_seed(asked["seed"] or RANDOM_SEED)
        self.verbose = bool(asked["verbose"])
        self.model_path = str(asked["model_path"])
        self.metadata = self._model.metadata()
        self.last_n_tokens_size = int(asked["last_n_tokens_size"])
        self.n_batch = min(int(asked["n_batch"]), runtime.n_ctx)
        self.tokenizer_: Any = asked["tokenizer"] or self.tokenizer()
        self.cache: Any = None

    def _stream(self, prompt: Sequence[int], options: GenerateOptions) -> Iterator[Chunk]:
        exact = bool(self._arguments["exact"]) if options.exact is None else options.exact
        options = replace(options, draft=self._arguments["draft"], exact=exact)
        for chunk in self._streams.run(lambda: self._runtime.stream(list(prompt), options)):
            if self.verbose and chunk.timings is not None:
                speed, accepted = chunk.timings.predicted_per_second, chunk.timings.mean_accepted_tokens
                print(f"recycle_cpp: {speed:.1f} tokens/s, {accepted:.2f} per evaluation", file=sys.stderr)
            yield chunk

    def _sampling(self, choosing: Choosing, seed: int) -> SamplingOptions:
        return choosing.sampling(seed=seed, window=self.last_n_tokens_size, n_vocab=self.n_vocab())

    def _piece(self, token: int, before: Sequence[int]) -> bytes:
        if self._arguments["tokenizer"] is None:
            return self._model.piece(token)
        return self.detokenize([token], prev_tokens=list(before[-_NEARBY:]))

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> list[int]:
        """Return the tokens of UTF-8 text.

        Args:
            text: the text.
            add_bos: put the token before it that begins a text, if the model wants one.
            special: read the names of control tokens as those tokens.
        """
        tokens: list[int] = self.tokenizer_.tokenize(text, add_bos, special)
        return tokens

    def detokenize(
        self, tokens: Sequence[int], prev_tokens: Sequence[int] | None = None, special: bool = False
    ) -> bytes:
        """Return the bytes of tokens.

        Args:
            tokens: the tokens.
            prev_tokens: those before them, for tokenizers that need to know.
            special: show control tokens by their names.
        """
        data: bytes = self.tokenizer_.detokenize(tokens, prev_tokens=prev_tokens, special=special)
        return data

    def tokenizer(self) -> LlamaTokenizer:
        """Return llama_cpp's tokenizer, for this model."""
        from llama_cpp.llama_tokenizer import LlamaTokenizer

        return LlamaTokenizer(self)

    def token_bos(self) -> int:
        """Return the token that begins a text; -1 for none."""
        return self._model.token_bos()

    def token_eos(self) -> int:
        """Return the token that ends a text; -1 for none."""
        return self._model.token_eos()

    def token_nl(self) -> int:
        """Return the token of a line's end; -1 for none."""
        return self._model.token_nl()

    def n_ctx(self) -> int:
        """Return how many tokens the context holds."""
        return self._runtime.n_ctx

    def n_vocab(self) -> int:
        """Return the size of the vocabulary."""
        return self._runtime.n_vocab

    def n_embd(self) -> int:
        """Return the size of an embedding."""
        return self._model.n_embd()

    def set_seed(self, seed: int) -> None:
        """Set the seed that the next draws follow from."""
        self._seed = whole_seed(seed)

    def set_cache(self, cache: Any) -> None:
        """Take a cache of prompts, and leave it alone: the longest common prefix is kept anyway."""
        self.cache = cache

    @property
    def n_tokens(self) -> int:
        """Tokens that `eval` and answers have left behind; set it lower to take the last ones back."""
        return len(self._tokens)

    @n_tokens.setter
    def n_tokens(self, n: int) -> None:
        """Keep the first tokens only.

        Raises:
            BadArgumentError: if there are not that many.
        """
        if not 0 <= n <= len(self._tokens):
            raise BadArgumentError(f"n_tokens is set to {n}: give a number from 0 to {len(self._tokens)}")
        self._tokens = self._tokens[:n]

    @property
    def eval_tokens(self) -> deque[int]:
        """Those tokens."""
        return deque(self._tokens, self.n_ctx())

    @property
    def input_ids(self) -> NDArray[np.intc]:
        """Those tokens, int32[n_ctx]; zeros behind them."""
        tokens = np.zeros(self.n_ctx(), np.intc)
        tokens[: len(self._tokens)] = self._tokens[: self.n_ctx()]
        return tokens

    def reset(self) -> None:
        """Begin a new text; what the prompt cache holds stays useful."""
        self._tokens = []

    def eval(self, tokens: Sequence[int]) -> None:
        """Go on in the text with these tokens.

        Raises:
            BadArgumentError: if the context has no room for them.
        """
        if len(self._tokens) + len(tokens) > self.n_ctx():
            room = self.n_ctx() - len(self._tokens)
            raise BadArgumentError(
                f"{len(tokens)} tokens do not fit, there is room for {room}: call reset, or raise n_ctx"
            )
        self._model.require_tokens(tokens)
        self._tokens += [int(token) for token in tokens]

    def sample(self, idx: int | None = None, **choosing: Any) -> int:
        """Return the token that follows the text; it is not added to it.

        Args:
            idx: does nothing: only the end of the text can be asked for.
            **choosing: how to choose, as in `generate`.

        Raises:
            BadArgumentError: if there is no text yet, or the context is full.
        """
        if not self._tokens:
            raise BadArgumentError("there is no text to sample after: call eval first")
        for token in self._choose(self._tokens, Choosing(**choosing), max_tokens=1):
            return token
        raise BadArgumentError("no token may follow: the grammar or stopping_criteria ends the text here")

    def generate(
        self, tokens: Sequence[int], *, reset: bool = True, **choosing: Any
    ) -> Generator[int, Sequence[int] | None, None]:
        """Yield the tokens that follow a prompt, until the context is full or stopping_criteria say so.

        It goes on behind tokens that end a generation: the caller decides. Tokens that are sent to the generator come
        behind the last one.

        Args:
            tokens: the prompt.
            reset: begin a new text with it; else go on with the one that `eval` began.
            **choosing: llama_cpp's settings by name: top_k, top_p, min_p, typical_p, temp, repeat_penalty,
                frequency_penalty, presence_penalty, mirostat_mode, mirostat_tau, mirostat_eta, logits_processor,
                stopping_criteria, grammar.

        Raises:
            BadArgumentError: if the context has no room for the prompt.
            UsageError: if a value is out of its range.
        """
        if reset:
            self.reset()
        self.eval(tokens)
        how = Choosing(**choosing)
        while len(self._tokens) < self.n_ctx():
            token = -1
            for token in self._choose(list(self._tokens), how):
                sent = yield token
                self._tokens.append(token)
                if sent is not None:
                    self.eval(sent)
                    break
            else:
                if not (token >= 0 and self._model.is_eog(token)):
                    return

    def _choose(self, prompt: Sequence[int], how: Choosing, max_tokens: int | None = None) -> Iterator[int]:
        options = GenerateOptions(max_tokens=max_tokens, sampling=self._sampling(how, self._seed), **how.rules())
        for chunk in self._stream(prompt, options):
            yield from chunk.tokens

    def save_state(self) -> LlamaState:
        """Return the text so far and the seed; the cache itself is left out, and evaluated anew where it is gone."""
        from llama_cpp.llama import LlamaState

        return LlamaState(
            input_ids=self.input_ids,
            scores=np.empty((0, self.n_vocab()), np.single),
            n_tokens=self.n_tokens,
            llama_state=b"",
            llama_state_size=0,
            seed=self._seed,
        )

    def load_state(self, state: LlamaState) -> None:
        """Go back to a text and seed that `save_state` returned."""
        self._tokens = [int(token) for token in state.input_ids[: state.n_tokens]]
        self._seed = state.seed

    def __getattr__(self, name: str) -> Any:
        """Return an argument of the class, or say why there is no such attribute."""
        arguments = self.__dict__.get("_arguments", {})
        if name in _ARGUMENTS and name in arguments:
            return arguments[name]
        why = f": {_NOT_HERE[name]}" if name in _NOT_HERE else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{why}", name=name, obj=self)

    def embed(self, *_arguments: Any, **_settings: Any) -> Any:
        """Refuse.

        Raises:
            NotOfferedError: always.
        """
        raise NotOfferedError("recycle_cpp makes no embeddings: use llama_cpp.Llama with embedding=True")

    create_embedding = embed

    def close(self) -> None:
        """Free the model's memory. Safe to call twice."""
        self._finalizer()

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self._arguments, "seed": self._seed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]
