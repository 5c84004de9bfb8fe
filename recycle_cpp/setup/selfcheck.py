"""Try the installed llama.cpp in a child process and judge how that went."""

import json
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from recycle_cpp.setup.layout import Layout

PROBE = "recycle_cpp.setup.probe"
LIMIT_SECONDS = 300.0
STAGES = ("library", "cpu", "gpu")
STAGE_WORDS = {
    "library": "while it was loaded",
    "cpu": "at the first wide batch on the CPU",
    "gpu": "at the first wide batch on the GPU",
}


@dataclass(frozen=True)
class Verdict:
    """How the trial went: what llama.cpp says of itself, and where and of what it failed if it did."""

    system_info: str
    failed_stage: str | None = None
    signal_name: str | None = None
    complaint: str = ""

    @property
    def ok(self) -> bool:
        """Whether every stage was survived."""
        return self.failed_stage is None

    @property
    def reason(self) -> str:
        """Why it failed, in a few words."""
        how = f"died by {self.signal_name}" if self.signal_name else f"failed ({self.complaint or 'no reason given'})"
        return f"{how} {STAGE_WORDS.get(self.failed_stage or '', '')}".rstrip()

    @property
    def features(self) -> str:
        """The features that llama.cpp uses here, without those it does not."""
        parts = [part.strip().removeprefix("CPU :").strip() for part in self.system_info.split("|")]
        return " ".join(part.removesuffix("= 1").strip() for part in parts if part.endswith("= 1"))


def signal_name(number: int) -> str:
    """Return a signal's name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def judge(status: int, output: str, errors: str) -> Verdict:
    """Judge the child by its exit status and by the stages that it reported."""
    reports = {}
    for line in output.splitlines():
        if line.startswith('{"stage"'):
            report = json.loads(line)
            reports[report["stage"]] = report
    info = str(reports.get("library", {}).get("system_info", ""))
    if status == 0 and reports:
        return Verdict(info)
    stage = next((name for name in STAGES if name not in reports), STAGES[-1])
    last = [line.strip() for line in errors.splitlines() if line.strip()][-1:]
    return Verdict(info, stage, signal_name(-status) if status < 0 else None, last[0] if last else "")


def check_library(layout: Layout, model: Path | None, environ: Mapping[str, str]) -> Verdict:
    """Load the installed library in a child and, with a model, evaluate one wide batch.

    Args:
        layout: The checkout whose .venv is tried.
        model: The model's file; None tries the loading alone.
        environ: The environment of the child.
    """
    command = [str(layout.python), "-m", PROBE, *([str(model)] if model else [])]
    try:
        done = subprocess.run(
            command,
            cwd=layout.root,
            env={**environ, "GGML_NO_BACKTRACE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Verdict("", "", None, f"no end after {LIMIT_SECONDS:.0f} s")
    return judge(done.returncode, done.stdout, done.stderr)
