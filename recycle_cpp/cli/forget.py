"""recycle-cpp forget: remove what drafting has learned and keeps on disk."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from recycle_cpp.cli import options, show
from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from recycle_cpp.models.learned_files import LearnedFile


@click.command(short_help="Remove what drafting has learned.")
@click.option(
    "-m", "--model", metavar="MODEL", help=f"Of this model: {options.MODEL_HELP[0].lower()}{options.MODEL_HELP[1:]}"
)
@click.option("--all", "everything", is_flag=True, help="Of every model.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def forget(model: str | None, everything: bool, dry_run: bool) -> None:
    """Remove what drafting has learned of a model, or of all, and keeps on disk.

    Nothing but speed depends on it. It holds tokens of prompts and answers. A model that is loaded meanwhile
    keeps what it knows, and may write it again.
    """
    if (model is None) != everything:
        raise UsageError("what to forget is not clear: give either -m MODEL or --all")
    from recycle_cpp.models.learned_files import learned_files, learned_folder
    from recycle_cpp.models.progress import size_text

    asked = None if model is None else _of_model(model)
    try:
        files = [file for file in (learned_files() if asked is None else asked) if file.size]
        n_bytes = sum(file.size for file in files)
    except OSError as error:
        raise UsageError(f"{learned_folder()} cannot be listed ({error.strerror}): check its rights") from error
    if not dry_run:
        _remove(files)
    whose = model or ("1 model" if len(files) == 1 else f"{len(files)} models")
    if files:
        done = "would remove" if dry_run else "removed"
        print(show.printable(f"{done} what was learned of {whose}: {size_text(n_bytes)} in {learned_folder()}"))
    else:
        print(show.printable(f"nothing was learned of {model or 'any model'}"))
    sys.stdout.flush()


def _of_model(model: str) -> list[LearnedFile]:
    from recycle_cpp.models import find, fingerprint
    from recycle_cpp.models.learned_files import LearnedFile

    path = find(model)
    if path is None:
        raise UsageError(
            f"the file of {model} is not here, so what belongs to it is not known: --all removes everything"
        )
    return [LearnedFile.of_user(fingerprint(path))]


def _remove(files: list[LearnedFile]) -> None:
    for file in files:
        try:
            file.remove()
        except OSError as error:
            raise UsageError(f"{file.path} cannot be removed ({error.strerror}): check its rights") from error
