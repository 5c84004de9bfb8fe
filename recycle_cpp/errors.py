"""The error tree. Each message is one line: what is wrong, where, and what to do.

RecycleError
├── UsageError            a value that the caller gave cannot be used
│   ├── PromptTooLongError    the prompt does not fit the context
│   └── BusyError             this thread already has a generation open on the model
├── ModelError            a model cannot be found, fetched or read
│   ├── ModelNotFoundError    no such name in models.toml and no such file
│   ├── DownloadError         the file could not be fetched (offline, refused, not there)
│   ├── DigestError           the file is not the one that models.toml names
│   └── ModelFileError        the file is not a GGUF that llama.cpp can load
├── CancelledError        the caller has cancelled the request before its prompt was evaluated
├── InstallError          llama-cpp-python is missing, of another version, or its build failed
└── BackendError          llama.cpp refused or failed an evaluation
"""


class RecycleError(Exception):
    """Base of every error raised on purpose by recycle_cpp."""

    exit_code = 1


class UsageError(RecycleError):
    """Raised when a value that the caller gave cannot be used."""

    exit_code = 2


class PromptTooLongError(UsageError):
    """Raised when the prompt does not fit the context."""


class BusyError(UsageError):
    """Raised when a thread starts a generation while another of its own is still open."""


class CancelledError(RecycleError):
    """Raised when the caller cancels a request before its prompt is evaluated; the cache is as before."""


class ModelError(RecycleError):
    """Raised when a model cannot be found, fetched or read."""

    exit_code = 2


class ModelNotFoundError(ModelError):
    """Raised when a model is neither a name in models.toml nor a file."""


class DownloadError(ModelError):
    """Raised when a model file could not be fetched."""


class DigestError(ModelError):
    """Raised when a file's SHA-256 is not the one in models.toml."""


class ModelFileError(ModelError):
    """Raised when a file is not a GGUF that llama.cpp can load."""


class InstallError(RecycleError):
    """Raised when llama-cpp-python is missing, of another version, or could not be built."""

    exit_code = 2


class BackendError(RecycleError):
    """Raised when llama.cpp refuses or fails an evaluation."""
