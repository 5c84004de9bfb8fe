"""A model that is ready to decode, with what was measured of it here."""

from __future__ import annotations

import os
import platform
from functools import cached_property
from typing import TYPE_CHECKING, Any

from recycle_cpp.backend.cores import thread_candidates, usable_cores
from recycle_cpp.backend.cost import Curve
from recycle_cpp.backend.library import TESTED_VERSION, load_library
from recycle_cpp.backend.llama import MAX_WIDTH, LlamaContext
from recycle_cpp.backend.measure import ExactWidths, probe_exact_widths
from recycle_cpp.backend.memory import available_bytes, cache_bytes_per_token, require_room
from recycle_cpp.backend.model import LlamaModel
from recycle_cpp.backend.profile import Profile
from recycle_cpp.backend.timing import Budget
from recycle_cpp.backend.tree import TreeBackend
from recycle_cpp.backend.tune import CONTEXT, SECONDS, Search, Settings, Tuned, Tuner
from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from recycle_cpp.types import CacheType, LoadOptions

DEFAULT_CONTEXT = 4096
MOST_THREADS_PER_CORE = 8
PROBE_BATCH = 512  # rows that probes evaluate at once, at most, whatever n_batch the user has
PROBE_CONTEXT = 4096  # cells of a context made for probing, at most
LEAST_CELLS = 512  # cells of a context made for measuring or probing, at least


class LoadedModel:
    """Weights, one context and its cache, and the profile of this model on this machine.

    Attributes:
        model: weights and vocabulary.
        backend: the context, as decoding sees it.
        fingerprint: identity of its file's content.
        settings: attention and threads: as asked for, or as measured to be fastest.
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
            self._require_threads()
            self._profile = Profile(profiles, model=fingerprint, **self._identity())
            trained = self.model.n_ctx_train
            most = trained if options.n_ctx == 0 else min(trained, DEFAULT_CONTEXT)
            self._n_ctx = options.n_ctx or (most if trained > 0 else DEFAULT_CONTEXT)
            self._require_room(self._n_ctx)
            self._search = self._choices()
            self.settings = self._tuned.settings if self._search.is_open else self._search.first
            context = self._context(self._n_ctx, options.n_batch, self.settings)
        except BaseException:
            self.model.close()
            raise
        self.backend = TreeBackend(context, self.model.is_eog, self._n_ctx, MAX_WIDTH)

    def curve(self) -> Curve:
        """Return the cost curve, measured once and kept."""
        return self._tuned.curve

    def exact_widths(self) -> ExactWidths:
        """Return which chains are bit-identical to plain decoding, probed once and kept."""
        n_ctx = min(max(self.backend.n_ctx, LEAST_CELLS), PROBE_CONTEXT)
        message = "probing which widths are exact here"
        name = f"exact widths in {n_ctx} cells, {self.settings}"
        return ExactWidths(*self._once(name, message, lambda: self._probe_exact(n_ctx)))

    def _probe_exact(self, n_ctx: int) -> ExactWidths:
        """Probe in a context of its own, so that a cache in use is never disturbed."""
        context = self._context(n_ctx, max(self._options.n_batch, PROBE_BATCH), self.settings)
        try:
            return probe_exact_widths(context, n_ctx)
        finally:
            context.close()

    @property
    def cache_types(self) -> tuple[CacheType, CacheType]:
        """Types of the cached keys and values."""
        return self._options.type_k, self._options.type_v

    @property
    def facts(self) -> dict[str, object]:
        """What a measurement must name: the file's fingerprint, the build and the settings in use."""
        return {
            "fingerprint": self.fingerprint,
            "n_ctx": self.backend.n_ctx,
            **self.settings._asdict(),
            "settings": self._origin,
            **self._identity(),
        }

    @property
    def settings_line(self) -> str:
        """The settings in use, in a few words, and where they come from."""
        return f"{self.settings} ({self._origin})"

    @property
    def _origin(self) -> str:
        return "measured" if self._search.is_open else "given"

    def close(self) -> None:
        """Free the memory. Safe to call twice."""
        self.backend.close()
        self.model.close()

    def _identity(self) -> dict[str, object]:
        options, library = self._options, load_library()
        return {
            "bindings": TESTED_VERSION,
            "build": f"{library.build}: {library.c.llama_print_system_info().decode('utf-8', 'replace')}",
            "machine": f"{platform.node()} {platform.machine()} {os.cpu_count()}",
            "cores": usable_cores(),
            "threads asked for": f"{options.n_threads} {options.n_threads_batch}",
            "gpu_layers": options.n_gpu_layers,
            "batch": options.n_batch,
            "cache": f"{options.type_k} {options.type_v}",
        }

    def _choices(self) -> Search:
        """Return what is open: each setting that nobody chose, and that the others leave a choice."""
        options = self._options
        quantised = options.type_v in ("q8_0", "q4_0")
        if quantised and options.flash_attention == "off":
            raise UsageError(f"a {options.type_v} cache of values needs flash attention: use --flash-attn on or auto")
        attention: tuple[bool, ...] = (self._offloads, not self._offloads)
        if options.flash_attention != "auto" or quantised:
            attention = (options.flash_attention != "off",)
        narrow, wide = options.n_threads, options.n_threads_batch
        threads = (narrow,) if narrow else thread_candidates()
        threads_batch = (wide,) if wide else threads if narrow else ()
        most = min(MAX_WIDTH, options.n_batch)  # whatever the context: what is measured serves a larger one, too
        return Search(attention, threads, threads_batch, most, self.model.can_branch)

    @cached_property
    def _tuned(self) -> Tuned:
        """Settings and cost curve, measured once and kept."""
        n_cells = min(max(self._n_ctx, LEAST_CELLS), CONTEXT)
        message = "measuring what is fastest here, and what wide evaluations cost"
        name = f"settings and cost curve in {n_cells} cells, flash attention {self._options.flash_attention}"
        kept = self._once(name, message, lambda: self._tune(n_cells))
        curve = kept["curve"]
        return Tuned(
            Settings(*kept["settings"]),
            Curve(tuple(curve["ladder"]), tuple(curve["base"]), tuple(curve["slope"]), curve["switch"]),
        )

    def _tune(self, n_cells: int) -> dict[str, object]:
        tuner = Tuner(lambda settings: self._context(n_cells, MAX_WIDTH, settings), self._search, Budget(SECONDS))
        found = tuner.run()
        return {"settings": list(found.settings), "curve": found.curve._asdict()}

    def _once(self, name: str, message: str, measure: Callable[[], object]) -> Any:
        """Return what the profile keeps under a name; measure it first, and say so, if there is nothing."""
        kept = self._profile.get(name)
        if kept is None:
            self._say(f"{message} (once per model)")
            kept = measure()
            self._profile.put(name, kept)
        return kept

    def _require_room(self, n_ctx: int) -> None:
        if self._offloads:
            return  # the cache lies on the GPU, which refuses by itself
        options = self._options
        require_room(n_ctx, cache_bytes_per_token(self.model, options.type_k, options.type_v), available_bytes())

    @property
    def _offloads(self) -> bool:
        return bool(load_library().c.llama_supports_gpu_offload()) and self._options.n_gpu_layers != 0

    def _context(self, n_ctx: int, n_batch: int, settings: Settings) -> LlamaContext:
        options = self._options
        return LlamaContext(
            self.model, n_ctx=n_ctx, n_batch=n_batch, type_k=options.type_k, type_v=options.type_v, **settings._asdict()
        )

    def _require_threads(self) -> None:
        """Check the threads that were asked for.

        Raises:
            UsageError: if they are so many that they would only wait for each other.
        """
        cores = usable_cores()
        for option, asked in (
            ("--threads", self._options.n_threads),
            ("--threads-batch", self._options.n_threads_batch),
        ):
            if asked is not None and asked > MOST_THREADS_PER_CORE * cores:
                raise UsageError(f"{option} is {asked}, this machine has {cores} cores: give {cores}, or leave it out")
