"""The runtime for asyncio: the model works in a thread of its own, never in the event loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from recycle_cpp.errors import UsageError
from recycle_cpp.runtime.model import Runtime

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
    from types import TracebackType

    from recycle_cpp.runtime.prompts import Prompt
    from recycle_cpp.types import (
        ChatChunk,
        ChatCompletion,
        Chunk,
        Completion,
        GenerateOptions,
        LoadOptions,
        Message,
    )

Result = TypeVar("Result")


class AsyncRuntime:
    """A Runtime whose calls are awaited. They are served one after the other, first come, first served.

    A task that is cancelled, and a stream that is closed, end the generation within a step.

    Attributes:
        runtime: the Runtime below; its own calls take their turns among these.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._worker = ThreadPoolExecutor(1, "recycle_cpp")

    @classmethod
    async def load(cls, model: str | os.PathLike[str], options: LoadOptions | None = None) -> AsyncRuntime:
        """Load a model; see `Runtime.load`."""
        return cls(await asyncio.to_thread(Runtime.load, model, options))

    async def generate(self, prompt: Prompt, options: GenerateOptions | None = None) -> Completion:
        """Return a whole answer; see `Runtime.generate`."""
        return await self._call(lambda cancel: self.runtime.generate(prompt, options, cancel=cancel))

    async def chat(self, messages: Sequence[Message], options: GenerateOptions | None = None) -> ChatCompletion:
        """Return a whole answer to a chat; see `Runtime.chat`."""
        return await self._call(lambda cancel: self.runtime.chat(messages, options, cancel=cancel))

    def stream(self, prompt: Prompt, options: GenerateOptions | None = None) -> AsyncGenerator[Chunk, None]:
        """Return the chunks of an answer, as they are decoded; see `Runtime.stream`."""
        return self._iterate(lambda cancel: self.runtime.stream(prompt, options, cancel=cancel))

    def stream_chat(
        self, messages: Sequence[Message], options: GenerateOptions | None = None
    ) -> AsyncGenerator[ChatChunk, None]:
        """Return the chunks of an answer to a chat, as they are decoded; see `Runtime.stream_chat`."""
        return self._iterate(lambda cancel: self.runtime.stream_chat(messages, options, cancel=cancel))

    async def close(self) -> None:
        """Free the memory, when the answer under way has ended. Safe to call twice."""
        await asyncio.to_thread(self.runtime.close)
        self._worker.shutdown(wait=False)

    async def __aenter__(self) -> AsyncRuntime:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _call(self, work: Callable[[threading.Event], Result]) -> Result:
        cancel = threading.Event()
        loop = asyncio.get_running_loop()
        try:
            future = loop.run_in_executor(self._worker, work, cancel)
        except RuntimeError as error:  # the worker takes nothing more
            raise UsageError("the model is closed: load it again") from error
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            cancel.set()
            if not future.cancel():  # not in the queue any more: it ends within a step
                await asyncio.wait([future])
            raise

    async def _iterate(self, work: Callable[[threading.Event], Iterator[Result]]) -> AsyncGenerator[Result, None]:
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[Result | None] = asyncio.Queue()

        def run(cancel: threading.Event) -> None:
            for item in work(cancel):
                loop.call_soon_threadsafe(arrived.put_nowait, item)

        task = asyncio.ensure_future(self._call(run))
        task.add_done_callback(lambda _: arrived.put_nowait(None))  # also where the worker never came to it
        try:
            while (item := await arrived.get()) is not None:
                yield item
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])
