from __future__ import annotations

import pytest

from recycle_cpp.version import __version__

# click's own messages change with its version: only what they name is checked.
PARSED = [
    ("--nope", "--nope", "recycle-cpp --help"),
    ("generat", "'generat'", "recycle-cpp --help"),
    ("generate --max-token 5", "--max-token", "recycle-cpp generate --help"),
    ("generate extra", "extra", "recycle-cpp generate --help"),
    ("generate -p", "-p", "recycle-cpp generate --help"),
    ("generate -p x --max-tokens many", "'many'", "recycle-cpp generate --help"),
    ("generate -p x --flash-attn maybe", "'maybe'", "recycle-cpp generate --help"),
    ("generate -p x --cache-type-k q9", "'q9'", "recycle-cpp generate --help"),
    ("generate -p x --draft fast", "'fast'", "recycle-cpp generate --help"),
    ("models extra", "extra", "recycle-cpp models --help"),
]
REFUSED = [
    ("--max-tokens 0", "max_tokens is 0; give a whole number from 1 up"),
    ("--temperature -1", "temperature is -1.0; give a number from 0 up"),
    ("--temperature nan", "temperature is nan; give a number from 0 up"),
    ("--top-p 1.5", "top_p is 1.5; give a number from 0 to 1"),
    ("--top-k -1", "top_k is -1; give a whole number"),
    ("--repeat-penalty 0", "repeat_penalty is 0.0; give a number from 0.01 to 100"),
    ("--seed -1", "seed is -1; give a whole number from 0"),
    ("--seed 99999999999", "seed is 99999999999; give"),
    ("--ctx-size -1", "n_ctx is -1; give a whole number from 0 up"),
    ("--batch-size 0", "n_batch is 0; give"),
    ("--threads 0", "n_threads is 0; give"),
    ("--gpu-layers -2", "n_gpu_layers is -2; give"),
    ("-m broken.gguf", "broken.gguf: is truncated at byte 9; fetch it again"),
]


@pytest.mark.parametrize(("arguments", "named", "where"), PARSED)
def test_what_cannot_be_parsed_is_one_line_that_names_it_and_the_help(
    call, arguments: str, named: str, where: str
) -> None:
    status, out, err = call(*arguments.split())
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert named in err
    assert err.endswith(f" (see {where})\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_a_value_that_cannot_be_used_is_one_line_and_status_2(call, arguments: str, message: str) -> None:
    status, out, err = call("generate", "-p", "x", *arguments.split())
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1


def test_an_empty_stop_string_is_refused(call) -> None:
    status, _, err = call("generate", "-p", "x", "--stop", "")
    assert (status, err) == (2, "error: stop is ('',); give a tuple of strings that are not empty\n")


def test_an_error_cannot_send_control_characters_to_the_terminal(call) -> None:
    status, _, err = call("generate", "-f", "no\x1b[2Jfile\nx")
    assert status == 2
    assert err.startswith("error: no\\x1b[2Jfile x: the prompt file cannot be read")
    assert err.count("\n") == 1


def test_without_a_command_the_help_is_shown(call) -> None:
    status, out, err = call()
    assert (status, err) == (0, "")
    assert out.startswith("Usage: recycle-cpp ")
    assert "generate" in out
    assert "models" in out


def test_the_version_is_shown(call) -> None:
    assert call("--version") == (0, f"recycle-cpp {__version__}\n", "")


@pytest.mark.parametrize("command", ["generate", "models"])
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_each_command_has_help(call, command: str, option: str) -> None:
    status, out, err = call(command, option)
    assert (status, err) == (0, "")
    assert out.startswith(f"Usage: recycle-cpp {command} ")


def test_the_help_of_generate_says_when_the_temperature_is_not_0(call) -> None:
    out = " ".join(call("generate", "--help").out.split())
    assert "[default: 0, or 0.8 with any other option of this section]" in out
