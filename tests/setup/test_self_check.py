import json
import signal

import pytest
from recorded import SYSTEM_INFO

from recycle_cpp.setup.selfcheck import judge

LIBRARY = json.dumps({"stage": "library", "system_info": SYSTEM_INFO}) + "\n"
CPU = json.dumps({"stage": "cpu", "seconds": 0.4}) + "\n"


def test_a_child_that_ends_well_is_fine():
    verdict = judge(0, LIBRARY + CPU, "")
    assert verdict.ok
    assert verdict.features == "SSE3 AVX2 AMX_INT8 OPENMP REPACK"


@pytest.mark.parametrize(
    ("output", "stage", "words"),
    [
        ("", "library", "while it was loaded"),
        (LIBRARY, "cpu", "at the first wide batch on the CPU"),
        (LIBRARY + CPU, "gpu", "at the first wide batch on the GPU"),
    ],
)
def test_a_child_that_dies_by_a_signal_names_it_and_the_place(output, stage, words):
    verdict = judge(-signal.SIGILL, output, "")
    assert (verdict.ok, verdict.failed_stage) == (False, stage)
    assert verdict.reason == f"died by SIGILL {words}"


def test_a_child_that_gives_up_is_quoted_by_its_last_line():
    verdict = judge(1, LIBRARY, "Traceback\n  x\nthe context cannot be made\n\n")
    assert verdict.signal_name is None
    assert verdict.reason == "failed (the context cannot be made) at the first wide batch on the CPU"


def test_other_words_of_the_library_do_no_harm():
    assert judge(0, "ggml_cuda_init: found 1 device\n" + LIBRARY + CPU, "").ok


def test_a_child_that_says_nothing_is_not_fine():
    assert not judge(0, "", "").ok
