"""The models room: models.toml, finding and downloading a model, digests."""

from recycle_cpp.models.digest import fingerprint, sha256
from recycle_cpp.models.listing import ModelStatus, status
from recycle_cpp.models.locate import ResolvedModel, find, resolve
from recycle_cpp.models.registry import ModelEntry, Registry

__all__ = [
    "ModelEntry",
    "ModelStatus",
    "Registry",
    "ResolvedModel",
    "find",
    "fingerprint",
    "resolve",
    "sha256",
    "status",
]
