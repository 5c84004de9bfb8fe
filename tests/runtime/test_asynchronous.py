"""Real SmolLM2 behind asyncio."""

from __future__ import annotations

import asyncio
import time

import pytest

from recycle_cpp import AsyncRuntime, GenerateOptions, Message, Runtime, SamplingOptions, UsageError

PROMPTS = ("Name a colour.", "Name three animals that live in the sea.", "Say hello.")
SHORT = GenerateOptions(max_tokens=12, exact=True)
SIXTY = GenerateOptions(max_tokens=60, sampling=SamplingOptions(ignore_eos=True))
ENDLESS = GenerateOptions(max_tokens=400, sampling=SamplingOptions(ignore_eos=True))


def run(work):
    """Run a coroutine function with the runtime's asynchronous face; it leaves no task behind."""

    async def with_nothing_left():
        result = await asyncio.wait_for(work(), 60)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    return asyncio.run(with_nothing_left())


@pytest.fixture(scope="module")
def both(smollm: Runtime) -> AsyncRuntime:
    return AsyncRuntime(smollm)


def test_awaited_answers_are_those_of_the_runtime_below(both: AsyncRuntime, smollm: Runtime) -> None:
    async def ask():
        answers = await asyncio.gather(*(both.generate(prompt, SHORT) for prompt in PROMPTS))
        return [answer.text for answer in answers]

    assert run(ask) == [smollm.generate(prompt, SHORT).text for prompt in PROMPTS]


def test_streams_of_several_tasks_do_not_mix(both: AsyncRuntime, smollm: Runtime) -> None:
    async def read(prompt: str) -> str:
        return "".join([chunk.text async for chunk in both.stream(prompt, SHORT)])

    async def ask():
        return await asyncio.gather(*map(read, PROMPTS))

    assert run(ask) == [smollm.generate(prompt, SHORT).text for prompt in PROMPTS]


def test_a_chat_can_be_awaited_whole_and_in_pieces(both: AsyncRuntime, smollm: Runtime) -> None:
    messages = [Message("user", PROMPTS[0])]

    async def ask():
        whole = await both.chat(messages, SHORT)
        pieces = [chunk.content async for chunk in both.stream_chat(messages, SHORT)]
        return whole.message.content, "".join(pieces)

    assert set(run(ask)) == {smollm.chat(messages, SHORT).message.content}


def test_the_event_loop_goes_on_while_the_model_works(both: AsyncRuntime) -> None:
    async def ask():
        task = asyncio.create_task(both.generate(PROMPTS[0], SHORT))
        beats = 0
        while not task.done():
            await asyncio.sleep(0.001)
            beats += 1
        return beats

    assert run(ask) > 3


def test_a_cancelled_task_stops_the_model_within_a_second_and_the_next_is_served(both: AsyncRuntime) -> None:
    async def ask():
        first = asyncio.create_task(both.generate(PROMPTS[1], ENDLESS))
        await asyncio.sleep(0.2)
        first.cancel()
        start = time.perf_counter()
        answer = await both.generate(PROMPTS[0], SHORT)
        assert first.cancelled()
        return answer.text, time.perf_counter() - start

    text, seconds = run(ask)
    assert text
    assert seconds < 1.5


def test_a_task_that_is_cancelled_in_the_queue_never_reaches_the_model(both: AsyncRuntime) -> None:
    async def ask():
        first = asyncio.create_task(both.generate(PROMPTS[1], SIXTY))
        second = asyncio.create_task(both.generate(PROMPTS[0], ENDLESS))
        await asyncio.sleep(0.05)
        second.cancel()
        await asyncio.wait([second])
        assert not first.done(), "the one in the queue waited for the one before it"
        return (await first).finish_reason

    assert run(ask) == "length"


def test_a_stream_that_is_closed_early_frees_the_model(both: AsyncRuntime) -> None:
    async def ask():
        stream = both.stream(PROMPTS[1], ENDLESS)
        first = await anext(stream)
        await stream.aclose()
        return first.text, (await both.generate(PROMPTS[0], SHORT)).text

    assert all(run(ask))


def test_an_error_reaches_the_one_who_awaits(both: AsyncRuntime) -> None:
    async def whole():
        await both.generate("x " * 3000, SHORT)

    async def streamed():
        async for _ in both.stream("x " * 3000, SHORT):
            raise AssertionError("a chunk of what does not fit")

    for ask in (whole, streamed):
        with pytest.raises(UsageError, match="the context 512"):
            run(ask)
