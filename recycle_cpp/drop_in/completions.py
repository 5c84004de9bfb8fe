"""Completions as llama_cpp's dictionaries, whole and in chunks."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from recycle_cpp.drop_in.answer import Answer, Part
    from recycle_cpp.drop_in.asked import Asked
    from recycle_cpp.drop_in.prompts import PromptTokens
    from recycle_cpp.types import Chunk, TokenLogprobs

Response = dict[str, Any]


class CompletionWriter:
    """Writes one answer down, all under one id."""

    def __init__(self, asked: Asked, model: str, bos: int, detokenize: Callable[[Sequence[int]], bytes]) -> None:
        """Begin.

        Args:
            asked: the request.
            model: name to answer under.
            bos: token that begins a text; log probabilities leave it out.
            detokenize: turns tokens into bytes.
        """
        self._asked = asked
        self._bos = bos
        self._detokenize = detokenize
        self._head = {
            "id": f"cmpl-{uuid.uuid4()}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": model,
        }

    def stream(self, answer: Answer, chunks: Iterator[Chunk]) -> Iterator[Response]:
        """Yield an answer as it comes: a dictionary for each token, and one for its end."""
        by_token = self._asked.logprobs is not None
        for chunk in chunks:
            for part in answer.take(chunk, by_token=by_token):
                yield from self._chunk(part)
            if answer.reason is not None:
                break
        for part in answer.rest():
            yield from self._chunk(part)
        yield self._response("", None, answer.reason)

    def _chunk(self, part: Part) -> Iterator[Response]:
        logprobs = None
        if self._asked.logprobs is not None:
            if part.token == self._bos:
                return
            logprobs = _lists()
            self._add(logprobs, part.token, len(self._asked.prompt) + part.before, part.said)
        yield self._response(part.text, logprobs, None)

    def whole(self, answer: Answer, prompt: PromptTokens, scored: Sequence[TokenLogprobs | None]) -> Response:
        """Return a whole answer.

        Args:
            answer: it, ended.
            prompt: its prompt.
            scored: what the model said where each token of the prompt stands, if that is to be reported.
        """
        text = answer.text + prompt.tail
        if self._asked.echo:
            given = self._asked.prompt
            text = (given if isinstance(given, str) else self._text(list(given))) + text
        logprobs = None if self._asked.logprobs is None else self._logprobs(answer, prompt.tokens, scored)
        n_prompt, n_answer = len(prompt.tokens), len(answer.tokens)
        counts = {"prompt_tokens": n_prompt, "completion_tokens": n_answer, "total_tokens": n_prompt + n_answer}
        return {**self._response(text, logprobs, answer.reason), "usage": counts}

    def _logprobs(self, answer: Answer, prompt: Sequence[int], scored: Sequence[TokenLogprobs | None]) -> Response:
        lists = _lists()
        offset = 0 if self._asked.echo else len(self._asked.prompt)
        if self._asked.echo:
            first = 1 if prompt[:1] == [self._bos] else 0
            seen = b""
            for token, said in zip(prompt[first:], scored[first:], strict=True):
                if token != self._bos:
                    self._add(lists, token, len(seen.decode("utf-8", "ignore")), said)
                seen += self._detokenize([token])
            offset = len(seen.decode("utf-8", "ignore"))
        for part in answer.parts:
            if part.token != self._bos:
                self._add(lists, part.token, offset + part.before, part.said)
        if self._asked.echo and lists["tokens"]:  # OpenAI's habit: nothing is said of the first token
            lists["token_logprobs"][0] = lists["top_logprobs"][0] = None
        return lists

    def _add(self, lists: Response, token: int, offset: int, said: TokenLogprobs | None) -> None:
        text = self._text([token])
        lists["tokens"].append(text)
        lists["text_offset"].append(offset)
        lists["token_logprobs"].append(None if said is None else said.logprob)
        top = None
        if said is not None:
            top = {self._text([other]): logprob for other, logprob in said.top[: self._asked.logprobs]}
            top[text] = said.logprob
        lists["top_logprobs"].append(top)

    def _text(self, tokens: Sequence[int]) -> str:
        return self._detokenize(tokens).decode("utf-8", "ignore")

    def _response(self, text: str, logprobs: Response | None, reason: str | None) -> Response:
        choice = {"text": text, "index": 0, "logprobs": logprobs, "finish_reason": reason}
        return {**self._head, "choices": [choice]}


def _lists() -> Response:
    return {"tokens": [], "text_offset": [], "token_logprobs": [], "top_logprobs": []}
