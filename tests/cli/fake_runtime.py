"""A runtime without a model, for the command line: the prompt, or the last message, says what it answers.

Run as a script it is the command line on that runtime.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import count
from types import ModuleType

from recycle_cpp.errors import BackendError, ModelFileError, PromptTooLongError, UsageError
from recycle_cpp.text.grammars import json_grammar, schema_grammar
from recycle_cpp.types import ChatChunk, Chunk, Completion, Message, Timings, TokenLogprobs, Usage

TIMINGS = Timings(
    prompt_n=31,
    prompt_ms=120.4,
    predicted_n=120,
    predicted_ms=2500.0,
    draft_n=4800,
    draft_n_accepted=61,
    steps=59,
    widths={40: 1, 81: 58},
    host_ms=70.0,
)
USAGE = Usage(prompt_tokens=31, completion_tokens=120)


class FakeRuntime:
    """Answers with the prompt, one character a chunk; some prompts make it misbehave."""

    settings = "flash attention off, 2 threads, 2 for wide batches (measured)"
    notes = ("drafting is off: 81 rows cost 18x one row here",)
    n_ctx = 1000

    def __init__(self) -> None:
        self.loaded: list[tuple] = []
        self.asked: list[tuple] = []
        self.events: list[str] = []

    def load(self, model, options, say):
        if model == "new":
            say("measuring what 8 rows cost here (once per model)")
        self.loaded.append((model, options))
        self.name = f"the {model}"
        self.is_chat = model != "base"
        if model == "broken.gguf":
            raise ModelFileError("broken.gguf: is truncated\nat byte 9; fetch it again")
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.events.append("runtime closed")

    def stream(self, prompt, options):
        self.asked.append((prompt, options))
        try:
            for number, character in enumerate(answer(prompt)):
                yield Chunk(text=character, tokens=(number,))
            yield Chunk(text="", tokens=(), finish_reason="stop", usage=USAGE, timings=TIMINGS)
        finally:
            self.events.append("stream closed")

    def generate(self, prompt, options):
        chunks = list(self.stream(prompt, options))
        text = "".join(chunk.text for chunk in chunks)
        tokens = tuple(token for chunk in chunks for token in chunk.tokens)
        top = ((2, -0.25), (7, float("-inf")))
        logprobs = [TokenLogprobs(token, -1.5, top[: options.logprobs]) for token in tokens]
        return Completion(text, tokens, "stop", USAGE, TIMINGS, tuple(logprobs if options.logprobs is not None else ()))

    @property
    def prompts(self):
        return self

    def piece(self, token, *, special=False):
        return {0: b"<s>" if special else b"", 2: b"\xf0\x9f"}.get(token, b"%d" % token)

    def stream_chat(self, messages, options, *, cancel):
        self.asked.append((tuple(messages), options))
        text = messages[-1].content
        if text == "too long":
            raise PromptTooLongError("the prompt has 1100 tokens, the context 1000: shorten it or raise --ctx-size")
        if text == "refused":
            raise UsageError("this model's chat template refuses these messages")
        try:
            reason = yield from chat_chunks(text, cancel)
            usage = USAGES.get(text, USAGE)
            end = Chunk("", (), finish_reason=reason, usage=usage, timings=TIMINGS)
            yield ChatChunk("", (), "", (), end, reason)
        finally:
            self.events.append("stream closed")

    def tokenize(self, messages):
        return list("".join(message.content for message in messages))

    def save_session(self, path, messages):
        path.write_text(json.dumps(messages))

    def restore_session(self, path):
        try:
            return tuple(Message(*fields[:3]) for fields in json.loads(path.read_text()))
        except (OSError, ValueError):
            raise UsageError(f"{path}: is no session: give a file that was saved") from None


USAGES = {"full": Usage(900, 100, 880), "almost": Usage(890, 20, 860)}
PAUSE = 0.002


def chat_chunks(text, cancel):
    if text == "think":
        yield ChatChunk("", (), "hm\x1b", (), Chunk("", (1,)))
        yield ChatChunk("so", ("so",), "", (), Chunk("so", (2,), ("so",)))
        return "stop"
    if text == "draft":
        yield ChatChunk("a\nbc", ("a\n", "b", "c"), "", (), Chunk("a\nbc", (1, 2, 3), ("a\n", "b", "c"), n_accepted=2))
        return "stop"
    while text == "nothing" and not cancel.is_set():
        time.sleep(PAUSE)
    if text == "nothing":
        return "cancelled"
    for character in answer(text):
        yield ChatChunk(character, (character,), "", (), Chunk(character, (1,), (character,)))
        if text == "slow":
            time.sleep(0.2)
        if cancel.is_set():
            return "cancelled"
    return "length" if text == "full" else "stop"


def answer(prompt):
    prompt = prompt if isinstance(prompt, str) else prompt[-1].content
    if prompt == "forever":
        for _ in count():
            yield "x" * 100
            time.sleep(0.001)
    if prompt == "interrupt":
        yield "half"
        raise KeyboardInterrupt
    if prompt == "fail":
        yield "half"
        raise BackendError("llama.cpp failed an evaluation; file an issue")
    yield from "" if prompt == "silent" else prompt


def fake_module():
    """Return what stands in for recycle_cpp.runtime, its runtime among it."""
    module = ModuleType("recycle_cpp.runtime")
    module.Runtime = FakeRuntime()
    module.json_grammar = json_grammar
    module.schema_grammar = schema_grammar
    return module


if __name__ == "__main__":
    from recycle_cpp.cli.main import main

    sys.modules["recycle_cpp.runtime"] = fake_module()
    main()
