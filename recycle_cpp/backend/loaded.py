"""A model that is ready to decode, with what was measured of it here."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any, TypeVar

from recycle_cpp.backend.cost import Curve
from recycle_cpp.backend.library import TESTED_VERSION, load_library
from recycle_cpp.backend.llama import MAX_WIDTH, LlamaContext
from recycle_cpp.backend.measure import ExactWidths, measure_curve, probe_exact_widths, time_widths
from recycle_cpp.backend.memory import available_bytes, cache_bytes_per_token, require_room
from recycle_cpp.backend.model import LlamaModel
from recycle_cpp.backend.profile import Profile
from recycle_cpp.backend.tree import TreeBackend
from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from recycle_cpp.types import LoadOptions

T = TypeVar("T")

DEFAULT_CONTEXT = 4096
MOST_THREADS_PER_CORE = 8
PROBE_BATCH = 512  # rows that probes evaluate at once, at most, whatever n_batch the user has
PROBE_CONTEXT = 4096  # cells of a context made for probing, at most
MEASURED_CELLS = 1024  # attention settings are compared at this fill: they do not differ at an empty cache


class LoadedModel:
    """Weights, one context and its cache, and the profile of this model on this machine.

    Attributes:
        model: weights and vocabulary.
        backend: the context, as decoding sees it.
        fingerprint: identity of its file's content.
        flash_attention: whether attention runs fused: as asked for, or as measured to be faster.
    """

    def __init__(
        self, path: Path, options: LoadOptions, profiles: Path, fingerprint: str, say: Callable[[str], None]
    ) -> None:
        """Load a model and choose the settings that nobody chose.

        Args:
            path: a GGUF file.
            options: the user's choices; None and "auto" are decided here.
            profiles: folder where measurements are kept.
            fingerprint: identity of the file's content.
            say: told of each measurement that takes a while.

        Raises:
            ModelFileError: if llama.cpp cannot load the file.
            BackendError: if it cannot make the context.
            UsageError: if options contradict each other.
            InstallError: if llama.cpp itself cannot be loaded.
        """
        self._options = options
        self._say = say
        self.fingerprint = fingerprint
        self.model = LlamaModel(path, options)
        try:
            self._threads = _threads(options.n_threads)
            self._profile = Profile(profiles, model=fingerprint, **self._identity())
            trained = self.model.n_ctx_train
            n_ctx = options.n_ctx or (min(trained, DEFAULT_CONTEXT) if trained > 0 else DEFAULT_CONTEXT)
            self._require_room(n_ctx)
            self.flash_attention = self._choose_flash_attention()
            context = self._context(n_ctx, options.n_batch, self.flash_attention)
        except BaseException:
            self.model.close()
            raise
        self.backend = TreeBackend(context, self.model.is_eog, n_ctx, MAX_WIDTH)

    def curve(self) -> Curve:
        """Return the cost curve, measured once and kept."""
        n_ctx = min(max(self.backend.n_ctx, 512), 2 * MEASURED_CELLS)
        kept = self._once(
            f"cost curve {self._attention}",
            "measuring what wide evaluations cost here",
            lambda: self._probing(
                n_ctx, self.flash_attention, lambda c: measure_curve(c, self.backend.max_width)
            )._asdict(),
        )
        return Curve(tuple(kept["ladder"]), tuple(kept["base"]), tuple(kept["slope"]), kept["switch"])

    def exact_widths(self) -> ExactWidths:
        """Return which chains are bit-identical to plain decoding, probed once and kept."""
        n_ctx = min(max(self.backend.n_ctx, 512), PROBE_CONTEXT)
        kept = self._once(
            f"exact widths {self._attention}",
            "probing which widths are exact here",
            lambda: self._probing(n_ctx, self.flash_attention, lambda c: probe_exact_widths(c, n_ctx)),
        )
        return ExactWidths(*kept)

    @property
    def facts(self) -> dict[str, object]:
        """What a measurement must name: the file's fingerprint, the build and the settings in use."""
        return {
            "fingerprint": self.fingerprint,
            "n_ctx": self.backend.n_ctx,
            "flash_attention": self.flash_attention,
            **self._identity(),
        }

    def close(self) -> None:
        """Free the memory. Safe to call twice."""
        self.backend.close()
        self.model.close()

    @property
    def _attention(self) -> str:
        return "flash attention" if self.flash_attention else "plain attention"

    def _identity(self) -> dict[str, object]:
        options, library = self._options, load_library()
        return {
            "bindings": TESTED_VERSION,
            "build": f"{library.build}: {library.c.llama_print_system_info().decode('utf-8', 'replace')}",
            "machine": f"{platform.node()} {platform.machine()} {os.cpu_count()}",
            "threads": self._threads,
            "gpu_layers": options.n_gpu_layers,
            "batch": options.n_batch,
            "cache": f"{options.type_k} {options.type_v}",
        }

    def _choose_flash_attention(self) -> bool:
        """Return the user's choice, or else what decodes faster at a filled cache."""
        options = self._options
        quantised = options.type_v in ("q8_0", "q4_0")
        if quantised and options.flash_attention == "off":
            raise UsageError(f"a {options.type_v} cache of values needs flash attention: use --flash-attn on or auto")
        if options.flash_attention != "auto" or quantised:
            return options.flash_attention != "off"
        message = "measuring which attention is faster here"
        return bool(self._once("flash attention", message, self._flash_attention_is_faster))

    def _flash_attention_is_faster(self) -> bool:
        seconds = {
            on: self._probing(2 * MEASURED_CELLS, on, lambda c: time_widths(c, (1, 4), MEASURED_CELLS, repeats=3))
            for on in (False, True)
        }
        # Single rows decide; wide ones do where single rows take the same time.
        first = 1 if abs(seconds[True][1].seconds / seconds[False][1].seconds - 1) > 0.05 else 4
        return seconds[True][first].seconds < seconds[False][first].seconds

    def _once(self, name: str, message: str, measure: Callable[[], object]) -> Any:
        """Return what the profile keeps under a name; measure it first, and say so, if there is nothing."""
        kept = self._profile.get(name)
        if kept is None:
            self._say(f"{message} (once per model)")
            kept = measure()
            self._profile.put(name, kept)
        return kept

    def _require_room(self, n_ctx: int) -> None:
        if load_library().c.llama_supports_gpu_offload() and self._options.n_gpu_layers != 0:
            return  # the cache lies on the GPU, which refuses by itself
        options = self._options
        require_room(n_ctx, cache_bytes_per_token(self.model, options.type_k, options.type_v), available_bytes())

    def _context(self, n_ctx: int, n_batch: int, flash_attention: bool) -> LlamaContext:
        options = self._options
        return LlamaContext(
            self.model,
            n_ctx=n_ctx,
            n_batch=n_batch,
            n_threads=self._threads,
            flash_attention=flash_attention,
            type_k=options.type_k,
            type_v=options.type_v,
        )

    def _probing(self, n_ctx: int, flash_attention: bool, probe: Callable[[LlamaContext], T]) -> T:
        """Run a probe in a context of its own, so that it never disturbs a cache in use."""
        context = self._context(n_ctx, max(self._options.n_batch, PROBE_BATCH), flash_attention)
        try:
            return probe(context)
        finally:
            context.close()


def _threads(asked: int | None) -> int:
    """Return the threads to use.

    Raises:
        UsageError: if so many were asked for that they would only wait for each other.
    """
    cores = usable_cores()
    if asked is not None and asked > MOST_THREADS_PER_CORE * cores:
        raise UsageError(f"--threads is {asked}, this machine has {cores} cores: give {cores}, or leave it out")
    return asked or cores


def usable_cores() -> int:
    """Return how many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
