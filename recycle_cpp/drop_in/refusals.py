"""Errors that are ours, one line each, and at the same time of the type that applications of llama_cpp catch."""

from __future__ import annotations

from recycle_cpp.errors import BackendError, ModelFileError, ModelNotFoundError, PromptTooLongError, UsageError


class BadArgumentError(UsageError, ValueError):
    """Raised when an argument cannot be used, where llama_cpp raises ValueError."""


class ContextExceededError(PromptTooLongError, ValueError):
    """Raised when the prompt does not fit the context."""


class NoSuchModelError(ModelNotFoundError, ValueError):
    """Raised when there is no file at the model's path."""


class BadModelError(ModelFileError, ValueError):
    """Raised when a file cannot be loaded as a model."""


class NoContextError(BackendError, ValueError):
    """Raised when llama.cpp cannot make the context."""


class NotOfferedError(UsageError, RuntimeError):
    """Raised when a method is called that only llama_cpp itself has."""
