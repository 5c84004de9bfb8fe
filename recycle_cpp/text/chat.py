"""Chat messages to prompt text, by the template that a GGUF carries."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recycle_cpp.types import Message


class ChatTemplate:
    """Renders messages in llama-cpp-python's own jinja sandbox, so the prompt is the one that it would build.

    Tokenize the result with `parse_special=True` and `add_special=template.wants_special(text)`.

    Control tokens in content: the template writes them as text, so a content that holds such text
    (`<|im_end|>`) becomes that control token too and can end its turn early or open another. llama.cpp's
    server and llama-cpp-python do the same, and this class keeps it, because the prompt must equal theirs.
    It changes what the model reads, nothing else; who passes on content of strangers has to filter it first.
    """

    def __init__(self, source: str, *, bos_token: str, eos_token: str) -> None:
        """Compile a template.

        Args:
            source: the GGUF's `tokenizer.chat_template`.
            bos_token: text of the begin-of-sequence token; empty if the model has none.
            eos_token: text of the end-of-sequence token; empty if the model has none.

        Raises:
            UsageError: if there is no template or it is not valid jinja.
        """
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter

        if not source.strip():
            raise UsageError("this model has no chat template; pass its prompt raw (--raw)")
        self._bos_token = bos_token
        try:
            self._formatter = Jinja2ChatFormatter(source, eos_token=eos_token, bos_token=bos_token)
        except Exception as error:  # a template is foreign code, and jinja is not ours to import
            raise UsageError(
                f"this model's chat template is not valid jinja: {_one_line(error)}; pass its prompt raw (--raw)"
            ) from error

    def render(self, messages: Sequence[Message], *, add_generation_prompt: bool = True) -> str:
        """Return the prompt text of a chat.

        Args:
            messages: the turns in order; at least one.
            add_generation_prompt: end with the opening of the assistant's turn.

        Raises:
            UsageError: if there are no messages or the template refuses them.
        """
        if not messages:
            raise UsageError("a chat without messages cannot be answered; give at least one")
        formatter = copy.copy(self._formatter)  # it takes the flag as an attribute only; threads may share ours
        formatter.add_generation_prompt = add_generation_prompt
        try:
            prompt = formatter(messages=[message._asdict() for message in messages]).prompt
        except Exception as error:  # raise_exception, an undefined value, a type error inside the template
            roles = ", ".join(dict.fromkeys(message.role for message in messages))
            raise UsageError(
                f"this model's chat template refuses these messages (roles: {roles}): {_one_line(error)}; "
                "change them or pass the prompt raw (--raw)"
            ) from error
        return str(prompt)

    def wants_special(self, rendered: str) -> bool:
        """Tell whether to tokenize with `add_special`: not if the template has written the BOS token."""
        return not (self._bos_token and rendered.startswith(self._bos_token))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
