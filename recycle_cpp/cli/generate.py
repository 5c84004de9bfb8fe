"""recycle-cpp generate: answer one prompt."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import click

from recycle_cpp.cli import options, show
from recycle_cpp.cli.answer_writer import AnswerWriter, color_option
from recycle_cpp.cli.prompt import read_prompt
from recycle_cpp.cli.sections import SectionedCommand
from recycle_cpp.cli.text_input import argument_text
from recycle_cpp.errors import RecycleError, UsageError
from recycle_cpp.types import Message

if TYPE_CHECKING:
    from recycle_cpp.runtime import Runtime
    from recycle_cpp.types import Chunk, Completion, GenerateOptions


@click.command(cls=SectionedCommand, short_help="Answer one prompt.")
@options.model_option
@click.option("-p", "--prompt", metavar="TEXT", help="The prompt.")
@click.option("-f", "--file", metavar="FILE", help="Read the prompt from a file of UTF-8; - is standard input.")
@click.option("--system", metavar="TEXT", help="A system message before the prompt.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the text.")
@color_option
@click.option("--verbose", is_flag=True, help="Show settings, notes on this machine and llama.cpp's own log.")
@options.request_options
@options.raw_option
@options.ANSWER.number(None, "--logprobs", text="With --json: each token's log probability and the N likeliest there.")
@options.load_options
@options.learned_option
def generate(**params: Any) -> None:
    """Answer one prompt, from -p, -f or standard input.

    The text goes to standard output as it comes, and one line of statistics to standard error. Without --raw
    the prompt is one message of a chat, and a newline at the end of a file is dropped.
    """
    prompt = _prompt(params)
    request = options.generate_options_from(params)
    if request.logprobs is not None and not params["as_json"]:
        raise UsageError("--logprobs is shown in the JSON object only: give --json, too")
    loading = options.load_options_from(params)
    model = options.model_from(params)
    from recycle_cpp.runtime import Runtime

    with Runtime.load(model, loading, show.dim) as runtime:
        if params["verbose"]:
            show.dim(f"settings: {runtime.settings}")
        if params["as_json"]:
            end: Completion | Chunk = _print_json(runtime, prompt, request)
        else:
            end = _stream_text(runtime, prompt, request, AnswerWriter(params["color"]))
        if params["verbose"] or request.is_exact:
            show.notes(runtime.notes)
        show.statistics(runtime.name, end, request.draft)


def _prompt(params: dict[str, Any]) -> str | list[Message]:
    """Return the prompt as it was given, behind the system message if there is one."""
    prompt = read_prompt(params["prompt"], params["file"], raw=bool(params["raw"]))
    if params["system"] is None:
        return prompt
    if params["raw"]:
        raise UsageError("--system needs the chat template and --raw leaves it out: give one of them")
    return [Message("system", argument_text(params["system"], "the text of --system")), Message("user", prompt)]


def _print_json(runtime: Runtime, prompt: str | list[Message], request: GenerateOptions) -> Completion:
    completion = runtime.generate(prompt, request)

    def text(token: int) -> str:
        return runtime.prompts.piece(token, special=True).decode("utf-8", "backslashreplace")

    show.completion_json(completion, text)
    return completion


def _stream_text(
    runtime: Runtime, prompt: str | list[Message], request: GenerateOptions, writer: AnswerWriter
) -> Chunk:
    """Print an answer as it comes and return its last chunk."""
    last: Chunk | None = None
    # Closed here, not when it is collected: the stream must end before the runtime that it runs on.
    with contextlib.closing(runtime.stream(prompt, request)) as stream:
        try:
            for chunk in stream:
                last = chunk
                writer.write(chunk.text, chunk.pieces, chunk.n_accepted)
        except RecycleError:
            writer.end(always=False)  # the error is a line of its own on a terminal
            raise
    writer.end()
    assert last is not None, "even an empty answer has a last chunk"
    return last
