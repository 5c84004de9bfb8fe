"""What a failed download means for the user."""

from __future__ import annotations

import errno

from recycle_cpp.models.entry import ModelEntry

DISK_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))  # Windows lacks the last one
REASON_CHARS = 120


def failures() -> tuple[type[Exception], ...]:
    """Return what huggingface_hub and the disk raise when a download fails.

    The library's transport has changed from requests to httpx to httpx2; its errors module holds the base
    of the errors of the one in use.
    """
    from huggingface_hub import errors

    return (OSError, ValueError, errors.HTTPError)  # type: ignore[attr-defined]  # imported there, not exported


def is_disk_full(error: BaseException) -> bool:
    """Return whether an error says that a disk or quota is full."""
    return isinstance(error, OSError) and error.errno in DISK_FULL


def explain(error: Exception, endpoint: str, entry: ModelEntry) -> tuple[str, str]:
    """Return why a download failed and what to do, each as part of a sentence.

    Args:
        error: one of `failures`.
        endpoint: the hub's address.
        entry: the model that was asked for.
    """
    from huggingface_hub import errors

    if isinstance(error, errors.OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE forbids the network", "unset it"
    if isinstance(error, errors.GatedRepoError):
        page = f"{endpoint}/{entry.hub}"
        return "the repo is gated", f"accept its terms at {page}, run `hf auth login` and try again"
    if isinstance(error, errors.EntryNotFoundError):
        return "the repo has no such file (404)", "correct hub_file in models.toml"
    if isinstance(error, errors.HfHubHTTPError):
        return _explain_status(error.response.status_code)
    if is_disk_full(error):
        return "the disk is full", "make room"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename} cannot be used ({error.strerror})", "check its rights"
    return f"no connection, or it broke ({_reason(error)})", "check the network and run it again"


def _explain_status(status: int) -> tuple[str, str]:
    if status in (401, 403, 404):
        return f"no such repo, or no access to it ({status})", "log in by `hf auth login` if it is private"
    if status == 429 or status >= 500:
        return f"the hub is busy or down ({status})", "run it again later"
    return f"the hub refused ({status})", "run it again later"


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= REASON_CHARS else f"{text[:REASON_CHARS]}..."
