"""Which of llama_cpp's chat handlers answers: the same one that llama_cpp.Llama would take."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from recycle_cpp.drop_in.refusals import BadArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from recycle_cpp.drop_in.vocabulary import ModelFace

_KEY = "tokenizer.chat_template"
_DEFAULT = "chat_template.default"
_FALLBACK = "llama-2"


def template_handlers(model: ModelFace, metadata: Mapping[str, str]) -> dict[str, Callable[..., Any]]:
    """Return llama_cpp's handlers for the chat templates that a GGUF carries, by their names.

    Raises:
        BadArgumentError: if a template is not valid jinja.
    """
    from llama_cpp.llama_chat_format import Jinja2ChatFormatter

    templates = {key.removeprefix("tokenizer."): text for key, text in metadata.items() if key.startswith(f"{_KEY}.")}
    if _KEY in metadata:
        templates[_DEFAULT] = metadata[_KEY]
    eos, bos = model.token_eos(), model.token_bos()
    texts = [model.token_get_text(token) if token >= 0 else "" for token in (eos, bos)]
    handlers = {}
    for name, template in templates.items():
        try:
            formatter = Jinja2ChatFormatter(template, texts[0], texts[1], stop_token_ids=[eos])
        except Exception as error:  # a template is foreign code, and jinja is not ours to import
            reason = " ".join(str(error).split())
            raise BadArgumentError(f"the model's {name} is not valid jinja ({reason}): try another file") from error
        handlers[name] = formatter.to_chat_handler()
    return handlers


def choose_format(metadata: Mapping[str, str], *, verbose: bool) -> str:
    """Return the chat format of a model for which the caller names none."""
    from llama_cpp.llama_chat_format import guess_chat_format_from_gguf_metadata

    guessed = guess_chat_format_from_gguf_metadata(dict(metadata))
    found = str(guessed or _DEFAULT) if _KEY in metadata else _FALLBACK
    if verbose:
        print(f"chat format: {found}", file=sys.stderr)
    return found


def require_text_handler(handler: object) -> None:
    """Check that a chat handler works on tokens alone.

    Raises:
        BadArgumentError: if it is one of llama_cpp's for images, which write into llama_cpp's own context.
    """
    from llama_cpp import llama_chat_format

    names = ("Llava15ChatHandler", "MTMDChatHandler", "GenericMTMDChatHandler")
    kinds = tuple(getattr(llama_chat_format, name) for name in names if hasattr(llama_chat_format, name))
    if isinstance(handler, kinds):
        raise BadArgumentError(f"{type(handler).__name__} reads images, recycle_cpp only text: use llama_cpp.Llama")


def find_handler(
    own: Callable[..., Any] | None, by_template: Mapping[str, Callable[..., Any]], chat_format: str | None
) -> Callable[..., Any]:
    """Return the handler that answers: the caller's own, the model's, or the registered one of that name."""
    from llama_cpp.llama_chat_format import get_chat_completion_handler

    found: Callable[..., Any] = own or by_template.get(str(chat_format)) or get_chat_completion_handler(chat_format)
    return found
