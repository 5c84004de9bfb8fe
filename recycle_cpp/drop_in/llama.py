"""The class that applications use instead of `llama_cpp.Llama`."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from recycle_cpp.drop_in.answer import Answer
from recycle_cpp.drop_in.asked import RANDOM_SEED, Asked, whole_seed
from recycle_cpp.drop_in.chats import choose_format, find_handler, require_text_handler, template_handlers
from recycle_cpp.drop_in.completions import CompletionWriter
from recycle_cpp.drop_in.pretrained import fetch
from recycle_cpp.drop_in.prompts import prompt_tokens
from recycle_cpp.drop_in.refusals import ContextExceededError
from recycle_cpp.drop_in.scoring import score
from recycle_cpp.drop_in.tokens import TokenLevel

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from llama_cpp import LlamaGrammar, LogitsProcessorList, StoppingCriteriaList

    from recycle_cpp.drop_in.completions import Response
    from recycle_cpp.types import DraftMode


class Llama(TokenLevel):
    """A model with the calls and dictionaries of `llama_cpp.Llama` 0.3.36, decoded with drafts.

    Differences: log probabilities need no `logits_all`; `n_threads` and `flash_attn` are measured if they are left
    out; drafting needs no `draft_model`, and the prompt cache none of `set_cache`; what only llama_cpp itself can do
    (embeddings, images, LoRA) is refused in one line.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str],
        *,
        n_gpu_layers: int = 0,
        split_mode: int = 1,
        main_gpu: int = 0,
        tensor_split: list[float] | None = None,
        vocab_only: bool = False,
        use_mmap: bool = True,
        use_mlock: bool = False,
        kv_overrides: Mapping[str, Any] | None = None,
        seed: int = RANDOM_SEED,
        n_ctx: int = 512,
        n_batch: int = 512,
        n_ubatch: int = 512,
        n_threads: int | None = None,
        n_threads_batch: int | None = None,
        rope_scaling_type: int | None = -1,
        pooling_type: int = -1,
        attention_type: int = -1,
        rope_freq_base: float = 0.0,
        rope_freq_scale: float = 0.0,
        yarn_ext_factor: float = -1.0,
        yarn_attn_factor: float = 1.0,
        yarn_beta_fast: float = 32.0,
        yarn_beta_slow: float = 1.0,
        yarn_orig_ctx: int = 0,
        logits_all: bool = False,
        embedding: bool = False,
        offload_kqv: bool = True,
        flash_attn: bool | None = None,
        op_offload: bool | None = None,
        swa_full: bool | None = None,
        no_perf: bool = False,
        last_n_tokens_size: int = 64,
        lora_base: str | None = None,
        lora_scale: float = 1.0,
        lora_path: str | None = None,
        numa: bool | int = False,
        chat_format: str | None = None,
        chat_handler: Any = None,
        draft_model: Any = None,
        tokenizer: Any = None,
        type_k: int | None = None,
        type_v: int | None = None,
        spm_infill: bool = False,
        verbose: bool = True,
        draft: DraftMode = "auto",
        exact: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """Load a model; arguments as llama_cpp.Llama's, and two of our own.

        `draft` says how to draft, as in GenerateOptions; `exact` drafts only what leaves the output byte-identical to
        plain decoding, and is the default of calls with a seed.

        Raises:
            ValueError: if there is no file at `model_path`, it cannot be loaded, or an argument asks for what only
                llama_cpp itself does; each is also an error of `recycle_cpp.errors`.
            UsageError: if options contradict each other.
            InstallError: if llama.cpp itself cannot be loaded.
        """
        asked = {name: value for name, value in locals().items() if name not in ("self", "kwargs")}
        TokenLevel.__init__(self, asked)
        self.spm_infill = spm_infill
        self.draft_model = draft_model
        self._set_up_chat(chat_format, chat_handler)
        ignored = [*kwargs, *(["draft_model (drafting is built in)"] if draft_model is not None else [])]
        if verbose and ignored:
            print(f"recycle_cpp ignores {', '.join(ignored)}", file=sys.stderr)

    def _set_up_chat(self, chat_format: str | None, chat_handler: Any) -> None:
        try:
            require_text_handler(chat_handler)
            self._chat_handlers = template_handlers(self._model, self.metadata)
        except BaseException:
            self.close()
            raise
        self.chat_handler = chat_handler
        self.chat_format = chat_format
        if chat_format is None and chat_handler is None:
            self.chat_format = choose_format(self.metadata, verbose=self.verbose)

    @classmethod
    def from_pretrained(
        cls,
        repo_id: str,
        filename: str | None,
        additional_files: list[str] | None = None,
        local_dir: str | os.PathLike[str] | None = None,
        local_dir_use_symlinks: bool | str = "auto",
        cache_dir: str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> Llama:
        """Fetch a model from the Hugging Face hub, unless it is here, and load it.

        Args:
            repo_id: the repo, "owner/name".
            filename: the file in it, or a pattern that matches one file.
            additional_files: more such.
            local_dir: folder to put the files into; None takes the hub library's cache.
            local_dir_use_symlinks: does nothing; the hub's library no longer asks.
            cache_dir: folder of that cache.
            **kwargs: arguments for the class.

        Raises:
            ValueError: if a pattern does not match exactly one file.
            DownloadError: if the hub cannot be asked, or a file not be fetched.
        """
        path = fetch(repo_id, filename, additional_files, local_dir=local_dir, cache_dir=cache_dir)
        return cls(model_path=path, **kwargs)

    def create_completion(
        self,
        prompt: str | Sequence[int],
        suffix: str | None = None,
        max_tokens: int | None = 16,
        temperature: float = 0.8,
        top_p: float = 0.95,
        min_p: float = 0.05,
        typical_p: float = 1.0,
        logprobs: int | None = None,
        echo: bool = False,
        stop: str | list[str] | None = None,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        repeat_penalty: float = 1.0,
        top_k: int = 40,
        stream: bool = False,
        seed: int | None = None,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        model: str | None = None,
        stopping_criteria: StoppingCriteriaList | None = None,
        logits_processor: LogitsProcessorList | None = None,
        grammar: LlamaGrammar | None = None,
        logit_bias: dict[int, float] | None = None,
    ) -> Any:
        """Return a completion, or an iterator of its chunks if `stream`; arguments as llama_cpp's.

        Raises:
            ValueError: if the prompt does not fit the context; also a UsageError.
            UsageError: if a value is out of its range.
        """
        arguments = {name: value for name, value in locals().items() if name not in ("self", "seed")}
        answers = self._complete(Asked.of(arguments), seed)
        return answers if stream else next(answers)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return a completion; see `create_completion`."""
        return self.create_completion(*args, **kwargs)

    def _complete(self, asked: Asked, seed: int | None) -> Iterator[Response]:
        prompt = prompt_tokens(asked.prompt, asked.suffix, self._model, self.tokenize, suffix_first=self.spm_infill)
        room = self.n_ctx() - len(prompt.tokens)
        if room <= 0:
            raise ContextExceededError(
                f"Requested tokens ({len(prompt.tokens)}) exceed context window of {self.n_ctx()}: "
                "shorten the prompt or raise n_ctx"
            )
        max_tokens = min(asked.max_tokens, room) if asked.max_tokens and asked.max_tokens > 0 else room
        # Of this call's own: another thread may set the next one meanwhile.
        self._seed = drawn = random.Random(self._seed).randint(0, 2**32) if seed is None else whole_seed(seed)
        exact = self._arguments["exact"]
        repeats = seed is not None if exact is None else exact  # of a seed of the class's own nobody knows
        options = replace(asked.options(self._sampling(asked.choosing, drawn), max_tokens), exact=repeats)
        answer = Answer(prompt.opening, asked.stop, max_tokens, self._piece, self._model.is_eog)
        writer = CompletionWriter(asked, asked.model or self.model_path, self.token_bos(), self._model.detokenize)
        if asked.stream:
            yield from writer.stream(answer, self._stream(prompt.tokens, options))
        else:
            echoed = asked.echo and asked.logprobs is not None
            scored = score(self._stream, prompt.tokens, asked.logprobs or 0) if echoed else []
            answer.take_all(self._stream(prompt.tokens, options))
            yield writer.whole(answer, prompt, scored)
        self._tokens = prompt.tokens + answer.tokens[len(prompt.opening) :]

    def create_chat_completion(
        self,
        messages: list[Any],
        functions: list[Any] | None = None,
        function_call: Any = None,
        tools: list[Any] | None = None,
        tool_choice: Any = None,
        temperature: float = 0.2,
        top_p: float = 0.95,
        top_k: int = 40,
        min_p: float = 0.05,
        typical_p: float = 1.0,
        stream: bool = False,
        stop: str | list[str] | None = None,
        seed: int | None = None,
        response_format: Any = None,
        max_tokens: int | None = None,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        repeat_penalty: float = 1.0,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        model: str | None = None,
        logits_processor: LogitsProcessorList | None = None,
        grammar: LlamaGrammar | None = None,
        logit_bias: dict[int, float] | None = None,
        logprobs: bool | None = None,
        top_logprobs: int | None = None,
    ) -> Any:
        """Return the answer to a chat, or an iterator of its chunks if `stream`, by llama_cpp's own chat handlers.

        Raises:
            ValueError: as `create_completion` does.
            UsageError: as `create_completion` does.
        """
        arguments = {name: value for name, value in locals().items() if name != "self"}
        arguments["stop"] = [] if stop is None else stop
        handler = find_handler(self.chat_handler, self._chat_handlers, self.chat_format)
        return handler(llama=self, **arguments)

    def create_chat_completion_openai_v1(self, *args: Any, **kwargs: Any) -> Any:
        """Return the answer to a chat in the classes of the package openai.

        Raises:
            ImportError: if that package is not installed.
        """
        try:
            openai = import_module("openai.types.chat")  # an application's own choice, not among our libraries
        except ImportError as error:
            raise ImportError("create_chat_completion_openai_v1 needs openai: `pip install openai`") from error
        answer = self.create_chat_completion(*args, **kwargs)
        if kwargs.get("stream", False):
            return (openai.ChatCompletionChunk(**chunk) for chunk in answer)
        return openai.ChatCompletion(**answer)
