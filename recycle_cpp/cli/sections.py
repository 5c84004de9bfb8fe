"""Options in sections of the help, each with the default of the record whose field it fills."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

UNNAMED = "Options"


class SectionedOption(click.Option):
    """An option that knows its section of the help."""

    def __init__(self, *arguments: Any, section: str = UNNAMED, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help shows its options by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their sections' titles, in the order in which these first come."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row is not None:
                sections.setdefault(getattr(parameter, "section", UNNAMED), []).append(row)
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


class Section:
    """Makes the options of one section.

    No option has a default of its own: it is None (or, if it may be repeated, empty) where it is not given.

    Attributes:
        title: the section's, as the help shows it.
    """

    def __init__(self, title: str) -> None:
        self.title = title

    def option(self, default: object, *declarations: str, text: str, **attributes: Any) -> Decorator:
        """Return an option with the default of its record, if that is to be shown, in its help."""
        shown = text if default is None else f"{text}  [default: {default}]"
        return click.option(
            *declarations, cls=SectionedOption, section=self.title, default=None, help=shown, **attributes
        )

    def number(self, default: object, *declarations: str, text: str, metavar: str = "N") -> Decorator:
        """Return an option whose value is a whole number."""
        return self.option(default, *declarations, text=text, type=int, metavar=metavar)

    def real(self, default: object, *declarations: str, text: str, metavar: str = "X") -> Decorator:
        """Return an option whose value is a number."""
        shown = f"{default:g}" if isinstance(default, float) else default
        return self.option(shown, *declarations, text=text, type=float, metavar=metavar)

    def texts(self, default: object, *declarations: str, text: str, metavar: str = "TEXT") -> Decorator:
        """Return an option that may be repeated."""
        return click.option(
            *declarations,
            cls=SectionedOption,
            section=self.title,
            multiple=True,
            metavar=metavar,
            help=f"{text}; may be repeated." + (f"  [default: {default}]" if default else ""),
        )

    def flag(self, *declarations: str, text: str) -> Decorator:
        """Return an option without a value."""
        return self.option(None, *declarations, text=text, is_flag=True)


def together(*decorators: Decorator) -> Decorator:
    """Return one decorator for several options, shown in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate
