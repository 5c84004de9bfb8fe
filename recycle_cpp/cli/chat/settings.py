"""What a chat asks for with each message: what the command line says, changed by /set."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from recycle_cpp.cli import grammar_options, options, sampling_options
from recycle_cpp.cli.sections import SectionedOption
from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from recycle_cpp.types import ChatOptions

SECTIONS = (options.ANSWER, grammar_options.SECTION, sampling_options.DRAWING, sampling_options.GREEDY_TOO)
DEFAULT = "default"


class Settings:
    """The options of a chat's requests, by name.

    Attributes:
        options: what a request asks for now.
    """

    def __init__(self, params: Mapping[str, Any], parameters: Sequence[click.Parameter]) -> None:
        """Take the values of a command line and the options that it knows.

        Raises:
            UsageError: if a value cannot be used.
        """
        titles = [section.title for section in SECTIONS]
        self._known = [one for one in parameters if isinstance(one, SectionedOption) and one.section in titles]
        self._params = dict(params)
        self.options: ChatOptions = options.chat_options_from(self._params)

    def set(self, name: str, text: str) -> None:
        """Change one setting; "default" takes it back.

        Raises:
            UsageError: if there is no such setting, or its value cannot be used; nothing is changed then.
        """
        option = self._find(name)
        changed = {**self._params, option.name: _value(option, text)}
        self.options = options.chat_options_from(changed)
        self._params = changed

    def lines(self) -> list[str]:
        """Return what is set, a line each."""
        given = [(one, self._params[one.name]) for one in self._known if one.name is not None]
        return [f"{_shown_name(one)} {_shown_value(value)}" for one, value in given if value not in (None, ())]

    def names(self) -> list[str]:
        """Return the names of all settings."""
        return [_shown_name(one) for one in self._known]

    def _find(self, name: str) -> SectionedOption:
        wanted = name.lstrip("-").replace("_", "-")
        for option in self._known:
            names = [*(spelling.lstrip("-") for spelling in option.opts), (option.name or "").replace("_", "-")]
            if wanted in names:
                return option
        raise UsageError(f"/set: there is no setting {name}: give one of {', '.join(self.names())}")


def _value(option: SectionedOption, text: str) -> Any:
    """Return what the command line would have made of an option's text."""
    if text == DEFAULT:
        return () if option.multiple else None
    if option.is_flag:
        if text not in ("on", "off"):
            raise UsageError(f"/set {_shown_name(option)}: {text!r} is neither on nor off")
        return True if text == "on" else None
    try:
        if option.multiple:
            return tuple(shlex.split(text))
        return option.type.convert(text, option, None)
    except click.BadParameter as error:
        raise UsageError(f"/set {_shown_name(option)}: {error.message.rstrip('.')}") from error
    except ValueError as error:  # a quote that is not closed
        raise UsageError(f"/set {_shown_name(option)}: {error}: close the quote") from error


def _shown_name(option: SectionedOption) -> str:
    return max(option.opts, key=len).lstrip("-")


def _shown_value(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(shlex.quote(text) for text in value)
    return "on" if value is True else str(value)
