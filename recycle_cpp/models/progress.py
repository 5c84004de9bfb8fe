"""Progress for people: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def size_text(size: int) -> str:
    """Return a number of bytes for people: "491 MB", "4.9 GB"."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


@contextmanager
def byte_bar(label: str, total: int | None, *, show: bool, start: int = 0) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error while bytes go by, and remove it at the end.

    Args:
        label: what is going on.
        total: how many bytes there will be; None if unknown.
        show: False shows nothing; nothing is shown either where standard error is no terminal.
        start: how many bytes were done before.

    Yields:
        A function to call with the number of bytes done so far.
    """
    if not (show and sys.stderr is not None and sys.stderr.isatty()):
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total, completed=start)
        yield lambda done: bar.update(task, completed=done)
