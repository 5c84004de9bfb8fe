"""Fetching a model from the Hugging Face hub by a pattern, as llama_cpp.Llama.from_pretrained does."""

from __future__ import annotations

import json
import os
from fnmatch import fnmatch
from typing import TYPE_CHECKING

from recycle_cpp.drop_in.refusals import BadArgumentError
from recycle_cpp.errors import DownloadError
from recycle_cpp.models.hub import endpoint
from recycle_cpp.models.hub_errors import failures

if TYPE_CHECKING:
    from collections.abc import Sequence


def fetch(
    repo_id: str,
    filename: str | None,
    additional_files: Sequence[str] | None,
    *,
    local_dir: str | os.PathLike[str] | None,
    cache_dir: str | os.PathLike[str] | None,
) -> str:
    """Return the path of a model's file, fetched with the others that it needs unless they are here.

    Args:
        repo_id: the repo on the hub, "owner/name".
        filename: the file in it, or a pattern that matches one file.
        additional_files: more such: further parts of a model in several files.
        local_dir: folder to put the files into; None takes the hub library's cache.
        cache_dir: folder of that cache.

    Raises:
        BadArgumentError: if `repo_id` is no repo's name, or a pattern does not match exactly one file.
        DownloadError: if the hub cannot be asked, or a file not be fetched.
    """
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.errors import HFValidationError

    try:
        files = HfApi(endpoint=endpoint()).list_repo_files(repo_id)
        wanted = [_one(files, pattern, repo_id) for pattern in (filename, *(additional_files or ()))]
        target, cache = _folder(local_dir), _folder(cache_dir)
        paths = [
            hf_hub_download(repo_id, name, local_dir=target, cache_dir=cache, endpoint=endpoint()) for name in wanted
        ]
    except HFValidationError as error:
        raise BadArgumentError(f"{repo_id!r} is no repo's name: give it as owner/name") from error
    except BadArgumentError:
        raise
    except failures() as error:
        reason = " ".join(str(error).split())
        raise DownloadError(
            f"{repo_id} cannot be fetched from {endpoint()}: {reason}; check the name and the network"
        ) from error
    return str(paths[0])


def _folder(folder: str | os.PathLike[str] | None) -> str | None:
    return None if folder is None else os.fspath(folder)


def _one(files: Sequence[str], pattern: str | None, repo_id: str) -> str:
    """Return the one file that a pattern matches."""
    found = [] if pattern is None else [name for name in files if fnmatch(name, pattern)]
    if len(found) == 1:
        return found[0]
    available = f"Available Files: {json.dumps(list(files))}; give a name or a pattern that matches one"
    if not found:
        raise BadArgumentError(f"No file found in {repo_id} that match {pattern}. {available}")
    raise BadArgumentError(f"Multiple files found in {repo_id} matching {pattern}. {available}")
