"""A stand-in for `llama_cpp.Llama`: the same calls and the same dictionaries, decoded by this package."""

from recycle_cpp.drop_in.llama import Llama

__all__ = ["Llama"]
