"""What cannot be loaded or does not fit is one error of the right class, with one line that says why."""

from __future__ import annotations

from pathlib import Path

import pytest
from real_prompts import SMOLLM

from recycle_cpp.errors import ModelFileError, ModelNotFoundError, PromptTooLongError, UsageError
from recycle_cpp.runtime import Runtime
from recycle_cpp.types import GenerateOptions, LoadOptions

OPTIONS = LoadOptions(n_ctx=256, n_threads=1, flash_attention="off")


def line_of(caught) -> str:
    line = str(caught.value)
    assert "\n" not in line
    assert 20 < len(line) < 400
    return line


@pytest.mark.parametrize("size", [0, 3, 4, 8, 24, 100, 5_000, 2_000_000, 60_000_000, -1])
def test_a_file_cut_anywhere_is_named_with_llama_cpps_reason(model_file, tmp_path: Path, size: int) -> None:
    whole = model_file(SMOLLM)
    path = tmp_path / "cut.gguf"
    with whole.open("rb") as source:
        path.write_bytes(source.read(size if size >= 0 else whole.stat().st_size - 1))
    with pytest.raises(ModelFileError) as caught:
        Runtime.load(str(path), OPTIONS)
    line = line_of(caught)
    assert str(path) in line
    assert "gave no reason" not in line
    path.unlink()


@pytest.mark.parametrize(
    "content", [b"GGUF" + b"\x07garbage" * 1000, b"GGUF\x03\0\0\0" + b"\xff" * 400, b"no model\n" * 50, b"\0" * 4096]
)
def test_garbage_is_no_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "garbage.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelFileError) as caught:
        Runtime.load(str(path), OPTIONS)
    assert str(path) in line_of(caught)


def test_a_path_that_leads_nowhere_is_not_found(tmp_path: Path) -> None:
    for name in (str(tmp_path / "missing.gguf"), "no-such-model"):
        with pytest.raises(ModelNotFoundError) as caught:
            Runtime.load(name, OPTIONS)
        assert name in line_of(caught)
    with pytest.raises(ModelFileError) as caught:
        Runtime.load(str(tmp_path), OPTIONS)
    line_of(caught)


def test_a_prompt_longer_than_the_context_is_refused_before_anything_is_evaluated(load) -> None:
    runtime = load(n_ctx=64, flash_attention="off")
    assert runtime.n_ctx == 64
    with pytest.raises(PromptTooLongError) as caught:
        runtime.stream("word " * 100, GenerateOptions(raw=True))
    assert "the context 64" in line_of(caught)
    with pytest.raises(UsageError) as caught:
        runtime.stream("", GenerateOptions(raw=True))
    line_of(caught)


@pytest.mark.parametrize("n_prompt", [50, 57, 62, 63, 64])
def test_a_prompt_near_the_end_of_the_context_ends_with_length(load, n_prompt: int) -> None:
    runtime = load(n_ctx=64, flash_attention="off")
    prompt = next(
        text for text in (" a" * n for n in range(1, 100)) if len(runtime.tokenize(text, raw=True)) == n_prompt
    )
    for draft in ("off", "tree", "tree"):
        answer = runtime.generate(prompt, GenerateOptions(raw=True, draft=draft))
        assert (answer.finish_reason, answer.usage.completion_tokens) == ("length", 65 - n_prompt)
    runtime.close()


@pytest.mark.parametrize("n_batch", [4, 8])
def test_a_small_batch_takes_prompt_and_tree(load, n_batch: int) -> None:
    runtime = load(n_ctx=256, n_batch=n_batch, flash_attention="off")
    for draft in ("off", "tree", "tree"):
        answer = runtime.generate("Count to twenty.", GenerateOptions(max_tokens=20, draft=draft))
        assert answer.usage.completion_tokens == 20
    assert answer.timings.draft_n > 20
    assert answer.timings.mean_width <= n_batch
    runtime.close()


def test_a_quantised_cache_of_values_without_flash_attention_is_refused(model_file) -> None:
    with pytest.raises(UsageError, match="needs flash attention") as caught:
        Runtime.load(str(model_file(SMOLLM)), LoadOptions(n_threads=1, type_v="q8_0", flash_attention="off"))
    line_of(caught)
