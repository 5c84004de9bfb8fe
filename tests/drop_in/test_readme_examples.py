"""The examples of llama-cpp-python's README, the import changed, a file here instead of the hub, and few tokens."""

from __future__ import annotations

import json

import pytest
from comparing import SETTINGS, said, streamed

from recycle_cpp import Llama


@pytest.fixture
def load(smollm_file, cache_home):
    """Load the local file as an example does; closed at the end."""
    opened: list[Llama] = []

    def open_with(**settings) -> Llama:
        opened.append(Llama(model_path=smollm_file, **{**SETTINGS, **settings}))
        return opened[-1]

    yield open_with
    for llama in opened:
        llama.close()


def test_text_completion(load) -> None:
    llm = load(
        # n_gpu_layers=-1, # Uncomment to use GPU acceleration
        seed=1337,
        n_ctx=512,
    )
    output = llm(
        "Q: Name the planets in the solar system? A: ",  # Prompt
        max_tokens=12,
        stop=["Q:", "\n"],  # Stop generating just before the model would generate a new question
        echo=True,  # Echo the prompt back in the output
    )
    assert output["object"] == "text_completion"
    assert said(output).startswith("Q: Name the planets in the solar system? A: ")
    assert "\n" not in said(output)
    usage = output["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_text_completion_in_a_stream(load) -> None:
    llm = load()
    stream = llm("Q: Name the planets in the solar system? A: ", max_tokens=12, stop=["Q:", "\n"], stream=True)
    texts = [output["choices"][0]["text"] for output in stream]
    assert len(texts) > 1
    assert "\n" not in "".join(texts)


def test_pulling_a_model_from_the_hub(smollm_file, cache_home, monkeypatch, tmp_path) -> None:
    from huggingface_hub import HfApi

    monkeypatch.setattr(HfApi, "list_repo_files", lambda _self, _repo: ["README.md", "qwen2-0_5b-instruct-q8_0.gguf"])
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda _repo, _name, **_folders: smollm_file)
    llm = Llama.from_pretrained(repo_id="Qwen/Qwen2-0.5B-Instruct-GGUF", filename="*q8_0.gguf", **SETTINGS)
    with llm:
        assert said(llm("1, 2, 3, 4,", max_tokens=2, temperature=0.0)) == " 5"


def test_chat_completion(load) -> None:
    llm = load(chat_format="llama-2")
    answer = llm.create_chat_completion(
        messages=[
            {"role": "system", "content": "You are an assistant who perfectly describes images."},
            {"role": "user", "content": "Describe this image in detail please."},
        ],
        max_tokens=8,
    )
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["role"] == "assistant"


def test_chat_completion_in_a_stream(load) -> None:
    llm = load()
    chunks = list(
        llm.create_chat_completion(
            messages=[{"role": "user", "content": "What is the capital of France?"}], stream=True, max_tokens=6
        )
    )
    assert streamed(chunks)
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant"}
    assert chunks[-1]["choices"][0] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "length"}


def test_json_mode(load) -> None:
    llm = load(chat_format="chatml")
    answer = llm.create_chat_completion(
        messages=[
            {"role": "system", "content": "You are a helpful assistant that outputs in JSON."},
            {"role": "user", "content": "Who won the world series in 2020"},
        ],
        response_format={"type": "json_object"},
        temperature=0.7,
        max_tokens=60,
        seed=1,
    )
    assert said(answer).lstrip().startswith("{")
    if answer["choices"][0]["finish_reason"] == "stop":
        assert isinstance(json.loads(said(answer)), dict)


def test_json_schema_mode(load) -> None:
    llm = load(chat_format="chatml")
    answer = llm.create_chat_completion(
        messages=[
            {"role": "system", "content": "You are a helpful assistant that outputs in JSON."},
            {"role": "user", "content": "Who won the world series in 2020"},
        ],
        response_format={
            "type": "json_object",
            "schema": {
                "type": "object",
                "properties": {"team_name": {"type": "string", "maxLength": 30}},
                "required": ["team_name"],
            },
        },
        temperature=0.7,
        max_tokens=80,
        seed=1,
    )
    assert list(json.loads(said(answer))) == ["team_name"]


def test_function_calling(load) -> None:
    llm = load(chat_format="chatml-function-calling")
    answer = llm.create_chat_completion(
        messages=[
            {
                "role": "system",
                "content": "A chat between a curious user and an artificial intelligence assistant. The assistant "
                "gives helpful, detailed, and polite answers to the user's questions. The assistant calls functions "
                "with appropriate input when necessary",
            },
            {"role": "user", "content": "Extract Jason is 25 years old"},
        ],
        tools=[
            {
                "type": "function",
                "function": {
                    "name": "UserDetail",
                    "parameters": {
                        "type": "object",
                        "title": "UserDetail",
                        "properties": {
                            "name": {"title": "Name", "type": "string"},
                            "age": {"title": "Age", "type": "integer"},
                        },
                        "required": ["name", "age"],
                    },
                },
            }
        ],
        tool_choice={"type": "function", "function": {"name": "UserDetail"}},
        max_tokens=40,
        temperature=0.0,
    )
    call = answer["choices"][0]["message"]["tool_calls"][0]["function"]
    assert call["name"] == "UserDetail"
    assert set(json.loads(call["arguments"])) == {"name", "age"}


def test_speculative_decoding(load) -> None:
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    llama = load(draft_model=LlamaPromptLookupDecoding(num_pred_tokens=10))
    assert said(llama("1, 2, 3, 4,", max_tokens=2, temperature=0.0)) == " 5"


def test_adjusting_the_context_window(load) -> None:
    assert load(n_ctx=1024).n_ctx() == 1024
