"""A runtime without a model, for the command line: the prompt says what it answers.

Run as a script it is the command line on that runtime.
"""

from __future__ import annotations

import sys
import time
from itertools import count
from types import ModuleType

from recycle_cpp.errors import BackendError, ModelFileError
from recycle_cpp.types import Chunk, Completion, Grammar, Timings, TokenLogprobs, Usage

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

    def __init__(self) -> None:
        self.loaded: list[tuple] = []
        self.asked: list[tuple] = []
        self.events: list[str] = []

    def load(self, model, options, say):
        if model == "new":
            say("measuring what 8 rows cost here (once per model)")
        self.loaded.append((model, options))
        self.name = f"the {model}"
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

    def piece(self, token, *, special=False):
        return {0: b"<s>" if special else b"", 2: b"\xf0\x9f"}.get(token, b"%d" % token)


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
    module.json_grammar = lambda: Grammar("root ::= any")
    module.schema_grammar = lambda schema: Grammar(f"root ::= {schema}")
    return module


if __name__ == "__main__":
    from recycle_cpp.cli.main import main

    sys.modules["recycle_cpp.runtime"] = fake_module()
    main()
