"""Text in, chunks out: what the command line, the server and the benchmarks call."""

from recycle_cpp.runtime.model import Runtime

__all__ = ["Runtime"]
