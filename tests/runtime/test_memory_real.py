"""Real SmolLM2: five hundred requests of every kind, and what they leave behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from real_prompts import SMOLLM

WORK = """
import gc, os, sys, threading
from dataclasses import replace
from pathlib import Path
from recycle_cpp import ChatOptions, LoadOptions, Message, Runtime, json_grammar
from recycle_cpp.bench.settings import request_settings

PROMPTS = ("Name a colour.", "List three animals.", "Say \\u4f60\\u597d in Arabic. " * 9, "A JSON object, please.")
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def request(runtime, number, options):
    prompt = PROMPTS[number % len(PROMPTS)]
    match number % 5:
        case 0:
            runtime.generate(prompt, options)
        case 1:
            list(runtime.stream(prompt, options))
        case 2:  # given up after the first chunk
            stream = runtime.stream(prompt, options)
            next(stream)
            stream.close()
        case 3:
            fields = {name: getattr(options, name) for name in options.__dataclass_fields__}
            runtime.chat([Message("system", "Be brief."), Message("user", prompt)], ChatOptions(**fields))
        case 4:
            cancel = threading.Event()
            stream = runtime.stream(prompt, options, cancel=cancel)
            next(stream)
            cancel.set()
            list(stream)


loading = LoadOptions(n_ctx=256, n_threads=1, flash_attention="on", learned=False)
with Runtime.load(sys.argv[1], loading) as runtime:
    settings = [replace(one, raw=False) for one in request_settings(json_grammar()).values()]
    for number in range(500):
        options = settings[number % len(settings)]
        draft, exact = ("auto", "tree", "off", "chain")[number // 5 % 4], number % 7 == 0
        # The first are longer: they meet the largest buffers of llama.cpp's grammars, which the allocator keeps.
        n = 30 if number < 50 else 5
        request(runtime, number, replace(options, max_tokens=n, draft=draft, exact=exact))
        if number in (49, 499):
            print(resident())
"""


def test_five_hundred_requests_of_every_kind_leave_memory_as_after_the_first_fifty(own_cache, model_file) -> None:
    with own_cache():
        command = [sys.executable, "-c", WORK, str(model_file(SMOLLM))]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    first, last = map(int, done.stdout.split())
    print(f"{first / 2**20:.1f} MiB after 50 requests, {(last - first) / 2**10:+.0f} KiB after 500")
    assert last - first <= 10**6
