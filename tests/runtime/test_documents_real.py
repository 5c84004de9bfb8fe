"""The Python blocks of the documents, run as they stand on the default model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def blocks(document: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / document).read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", ["README.md", "docs/python.md"])
def test_every_python_block_runs(document: str, model_file, capsys) -> None:
    model_file("smollm2-135m-instruct-q4_1.gguf")
    found = blocks(document)
    assert found
    scope: dict[str, object] = {"__name__": "document"}
    for number, block in enumerate(found):
        exec(compile(block, f"{document}, block {number}", "exec"), scope)
    assert "Traceback" not in capsys.readouterr().out
