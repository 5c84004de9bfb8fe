"""Writes tiny GGUF files with random weights: a recurrent model (Mamba) and a hybrid one (LFM2), of 260 tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFWriter, TokenType

N_LAYER, N_EMBD, N_STATE, N_CONV, RANK, N_HEAD, N_FF = 4, 64, 16, 4, 4, 4, 96
CONTROL = ("<unk>", "<s>", "</s>", "\u2581")
EOS = 2


class TinyModel:
    """Collects the header and the tensors of one file."""

    def __init__(self, path: Path, architecture: str, seed: int = 1) -> None:
        self._writer = GGUFWriter(path, architecture)
        self._rng = np.random.default_rng(seed)
        writer = self._writer
        writer.add_context_length(2048)
        writer.add_embedding_length(N_EMBD)
        writer.add_block_count(N_LAYER)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_tokenizer_model("llama")
        writer.add_token_list([*CONTROL, *(f"<0x{byte:02X}>" for byte in range(256))])
        writer.add_token_scores([0.0] * (256 + len(CONTROL)))
        kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL, TokenType.NORMAL]
        writer.add_token_types([*kinds, *[TokenType.BYTE] * 256])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(EOS)
        self.matrix("token_embd", 256 + len(CONTROL), N_EMBD, scale=1.0)

    @property
    def header(self) -> GGUFWriter:
        """Where keys of the architecture go."""
        return self._writer

    def tensor(self, name: str, values: np.ndarray) -> None:
        """Add a tensor; numpy's last axis is the file's first."""
        self._writer.add_tensor(name, values.astype(np.float32))

    def matrix(self, name: str, n_out: int, n_in: int, scale: float = 1.5) -> None:
        """Add random weights that keep the size of what they are applied to."""
        self.tensor(f"{name}.weight", self._rng.normal(0, scale / np.sqrt(n_in), (n_out, n_in)))

    def ones(self, name: str, n: int) -> None:
        """Add the weights of a norm."""
        self.tensor(f"{name}.weight", np.ones(n))

    def vector(self, name: str, n: int, low: float, high: float) -> None:
        """Add random numbers from a range."""
        self.tensor(name, self._rng.uniform(low, high, n))

    def write(self) -> None:
        """Write the file."""
        self._writer.write_header_to_file()
        self._writer.write_kv_data_to_file()
        self._writer.write_tensors_to_file()
        self._writer.close()


def write_mamba(path: Path) -> None:
    """Write a recurrent model."""
    model, n_inner = TinyModel(path, "mamba"), 2 * N_EMBD
    model.header.add_ssm_conv_kernel(N_CONV)
    model.header.add_ssm_inner_size(n_inner)
    model.header.add_ssm_state_size(N_STATE)
    model.header.add_ssm_time_step_rank(RANK)
    model.ones("output_norm", N_EMBD)
    for layer in range(N_LAYER):
        block = f"blk.{layer}."
        model.ones(block + "attn_norm", N_EMBD)
        model.matrix(block + "ssm_in", 2 * n_inner, N_EMBD)
        model.matrix(block + "ssm_conv1d", n_inner, N_CONV)
        model.vector(block + "ssm_conv1d.bias", n_inner, -0.1, 0.1)
        model.matrix(block + "ssm_x", RANK + 2 * N_STATE, n_inner)
        model.matrix(block + "ssm_dt", n_inner, RANK)
        model.vector(block + "ssm_dt.bias", n_inner, -3, 0)
        model.tensor(block + "ssm_a", -np.tile(np.arange(1.0, N_STATE + 1), (n_inner, 1)))
        model.vector(block + "ssm_d", n_inner, 0.5, 1.5)
        model.matrix(block + "ssm_out", N_EMBD, n_inner)
    model.write()


def write_lfm2(path: Path) -> None:
    """Write a hybrid model: layers of attention between layers of short convolutions."""
    model = TinyModel(path, "lfm2")
    with_attention = [layer % 2 for layer in range(N_LAYER)]
    model.header.add_head_count(N_HEAD)
    model.header.add_head_count_kv([2 * has for has in with_attention])
    model.header.add_feed_forward_length(N_FF)
    model.header.add_shortconv_l_cache(3)
    model.header.add_vocab_size(256 + len(CONTROL))
    model.header.add_rope_freq_base(10_000.0)
    model.ones("token_embd_norm", N_EMBD)
    head = N_EMBD // N_HEAD
    for layer, has_attention in enumerate(with_attention):
        block = f"blk.{layer}."
        model.ones(block + "attn_norm", N_EMBD)
        model.ones(block + "ffn_norm", N_EMBD)
        for name, n_out, n_in in (("ffn_gate", N_FF, N_EMBD), ("ffn_up", N_FF, N_EMBD), ("ffn_down", N_EMBD, N_FF)):
            model.matrix(block + name, n_out, n_in)
        if has_attention:
            for name, n_out in (
                ("attn_q", N_EMBD),
                ("attn_k", 2 * head),
                ("attn_v", 2 * head),
                ("attn_output", N_EMBD),
            ):
                model.matrix(block + name, n_out, N_EMBD)
            model.ones(block + "attn_q_norm", head)
            model.ones(block + "attn_k_norm", head)
        else:
            model.matrix(block + "shortconv.conv", N_EMBD, 3)
            model.matrix(block + "shortconv.in_proj", 3 * N_EMBD, N_EMBD)
            model.matrix(block + "shortconv.out_proj", N_EMBD, N_EMBD)
    model.write()
