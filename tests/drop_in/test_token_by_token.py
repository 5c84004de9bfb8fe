"""The lower half of the class: tokens in and out, step by step."""

from __future__ import annotations

import pickle
import threading
from itertools import islice

import numpy as np
import pytest
from comparing import said
from llama_cpp import LlamaRAMCache

from recycle_cpp import UsageError

COUNT = b"1, 2, 3, 4,"


def test_generate_yields_the_same_tokens(ours, theirs) -> None:
    prompt = theirs.tokenize(COUNT)
    mine = list(islice(ours.generate(prompt, temp=0.0), 12))
    assert mine == list(islice(theirs.llama.generate(prompt, temp=0.0), 12))


def test_generate_goes_on_behind_the_end_of_an_answer(llama, theirs) -> None:
    prompt = theirs.tokenize(
        b"<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n", special=True
    )
    mine = list(islice(llama.generate(prompt, temp=0.0), 10))
    assert llama.token_eos() in mine[:-1]
    assert mine == list(islice(theirs.llama.generate(prompt, temp=0.0), 10))


def test_tokens_that_are_sent_come_behind_the_last_one(llama) -> None:
    """llama_cpp takes them for a draft, and drops them where the model would have said something else."""
    prompt, more = llama.tokenize(COUNT), llama.tokenize(b"10, 20, 30,")
    tokens = llama.generate(prompt, temp=0.0)
    first = next(tokens)
    answer = [tokens.send(more), *islice(tokens, 3)]
    assert answer == list(islice(llama.generate([*prompt, first, *more], temp=0.0), 4))


def test_generate_ends_where_the_context_is_full(llama) -> None:
    prompt = (llama.tokenize(COUNT) * 50)[:509]
    assert len(list(llama.generate(prompt, temp=0.0))) in (3, 4)


def test_eval_and_sample_make_the_same_text(llama, theirs) -> None:
    texts = []
    for model in (llama, theirs.llama):
        model.reset()
        model.eval(model.tokenize(COUNT))
        tokens = []
        for _ in range(6):
            tokens.append(model.sample(temp=0.0))
            model.eval(tokens[-1:])
        assert model.n_tokens == len(model.tokenize(COUNT)) + 6
        assert model.input_ids[model.n_tokens - 1] == tokens[-1]
        texts.append(tokens)
    assert texts[0] == texts[1]


def test_generate_without_reset_goes_on_in_the_text(llama) -> None:
    head, tail = llama.tokenize(COUNT)[:6], llama.tokenize(COUNT)[6:]
    llama.reset()
    llama.eval(head)
    begun = list(islice(llama.generate(tail, reset=False, temp=0.0), 4))
    assert begun == list(islice(llama.generate(head + tail, temp=0.0), 4))


def test_a_saved_state_is_gone_back_to(llama) -> None:
    llama.reset()
    llama.eval(llama.tokenize(COUNT))
    state = llama.save_state()
    first = llama.sample(temp=0.0)
    llama("Something else", max_tokens=2)
    llama.load_state(state)
    assert llama.n_tokens == state.n_tokens
    assert llama.input_ids.dtype == np.intc
    assert llama.sample(temp=0.0) == first


def test_a_sample_of_nothing_and_tokens_without_room_are_refused(llama) -> None:
    llama.reset()
    with pytest.raises(ValueError, match="call eval first"):
        llama.sample()
    with pytest.raises(UsageError, match="513 tokens do not fit, there is room for 512"):
        llama.eval([1] * 513)


def test_a_cache_is_accepted(llama) -> None:
    cache = LlamaRAMCache()
    llama.set_cache(cache)
    assert llama.cache is cache
    assert said(llama(COUNT.decode(), max_tokens=2, temperature=0.0)) == " 5"
    llama.set_cache(None)


def test_a_half_read_stream_is_ended_by_the_next_call(llama) -> None:
    half_read = llama(COUNT.decode(), max_tokens=40, temperature=0.0, stream=True)
    next(half_read)
    assert said(llama(COUNT.decode(), max_tokens=2, temperature=0.0)) == " 5"
    with pytest.raises(UsageError, match="cut off"):
        list(half_read)


def test_a_pickled_model_is_loaded_again_with_its_settings(llama) -> None:
    with pickle.loads(pickle.dumps(llama)) as again:
        assert again.n_ctx() == 512
        assert again._arguments == {**llama._arguments, "seed": llama._seed}
        assert said(again(COUNT.decode(), max_tokens=2, temperature=0.0)) == " 5"


def test_a_half_read_stream_of_another_thread_is_waited_for(llama) -> None:
    begun, read_on = threading.Event(), threading.Event()
    read: list[str] = []

    def read_slowly() -> None:
        for chunk in llama(COUNT.decode(), max_tokens=6, temperature=0.0, stream=True):
            read.append(chunk["choices"][0]["text"])
            begun.set()
            read_on.wait(10)

    answers: list[str] = []
    threads = [threading.Thread(target=read_slowly)]
    threads.append(
        threading.Thread(target=lambda: answers.append(said(llama("A, B, C,", max_tokens=2, temperature=0.0))))
    )
    threads[0].start()
    assert begun.wait(30)
    threads[1].start()
    threads[1].join(0.2)
    assert answers == []
    read_on.set()
    for thread in threads:
        thread.join(30)
    assert "".join(read) == " 5, 6,"
    assert len(answers) == 1
