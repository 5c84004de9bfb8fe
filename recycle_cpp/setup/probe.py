"""Try the installed llama.cpp: `.venv/bin/python -m recycle_cpp.setup.probe [MODEL]`.

Runs in a child process, for a library built wrongly may kill it. Prints one JSON object per stage survived.
"""

import json
import math
import os
import resource
import sys
import time
from typing import Any

ROWS = 32  # one batch wide enough for the matrix kernels that single tokens never reach
CONTEXT = 256
FIRST_TOKEN = 1000
ALL_LAYERS = 999


def _report(stage: str, **facts: object) -> None:
    print(json.dumps({"stage": stage, **facts}), flush=True)


def _fill(batch: Any) -> None:
    """Lay a chain of ROWS tokens into the batch, with logits for each."""
    batch.n_tokens = ROWS
    for row in range(ROWS):
        batch.token[row] = FIRST_TOKEN + row
        batch.pos[row] = row
        batch.n_seq_id[row] = 1
        batch.seq_id[row][0] = 0
        batch.logits[row] = 1


def _evaluate(lib: Any, context: Any, vocabulary: int) -> None:
    batch = lib.llama_batch_init(ROWS, 0, 1)
    _fill(batch)
    status = lib.llama_decode(context, batch)
    if status != 0:
        sys.exit(f"llama_decode of {ROWS} rows returned {status}")
    logits = lib.llama_get_logits(context)
    if not all(math.isfinite(logits[row * vocabulary]) for row in range(ROWS)):
        sys.exit("llama_decode gave logits that are no numbers")
    lib.llama_batch_free(batch)


def decode_wide(lib: Any, path: str, *, gpu: bool) -> None:
    """Evaluate one wide batch with a model, wholly on the CPU or wholly on the GPU.

    Args:
        lib: The llama_cpp module.
        path: The model's file.
        gpu: Where the model runs.
    """
    model_params = lib.llama_model_default_params()
    model_params.n_gpu_layers = ALL_LAYERS if gpu else 0
    model = lib.llama_model_load_from_file(path.encode(), model_params)
    if not model:
        sys.exit(f"the model {path} cannot be loaded")
    params = lib.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = CONTEXT
    params.kv_unified = True
    params.offload_kqv = params.op_offload = gpu
    params.n_threads = params.n_threads_batch = min(os.cpu_count() or 1, 8)
    context = lib.llama_init_from_model(model, params)
    if not context:
        sys.exit("the context cannot be made")
    _evaluate(lib, context, lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model)))
    lib.llama_free(context)
    lib.llama_model_free(model)


def main(arguments: list[str]) -> None:
    """Load the library; with a model, evaluate a wide batch on the CPU and on a GPU if there is one."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a death is reported, it leaves no core file
    import llama_cpp as lib

    quiet = lib.llama_log_callback(lambda level, text, data: None)
    lib.llama_log_set(quiet, None)
    lib.llama_backend_init()
    _report("library", system_info=lib.llama_print_system_info().decode().strip())
    for path in arguments:
        for place in ["cpu", "gpu"] if lib.llama_supports_gpu_offload() else ["cpu"]:
            started = time.monotonic()
            decode_wide(lib, path, gpu=place == "gpu")
            _report(place, seconds=round(time.monotonic() - started, 2))


if __name__ == "__main__":
    main(sys.argv[1:])
