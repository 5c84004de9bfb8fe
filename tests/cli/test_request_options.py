"""Every field of the records has an option, and every option reaches its field."""

from __future__ import annotations

import math
from dataclasses import fields

import pytest

from recycle_cpp.cli.generate import generate
from recycle_cpp.cli.sampling_options import ASK_FOR_SAMPLING, DRAWING
from recycle_cpp.text.grammars import json_grammar, schema_grammar
from recycle_cpp.types import GenerateOptions, Grammar, LoadOptions, SamplingOptions

# For each field: what is typed, and what the record then holds.
LOADING = {
    "n_ctx": ("--ctx-size 99", 99),
    "n_batch": ("--batch-size 7", 7),
    "n_threads": ("--threads 3", 3),
    "n_threads_batch": ("--threads-batch 4", 4),
    "n_gpu_layers": ("--gpu-layers 0", 0),
    "flash_attention": ("--flash-attn on", "on"),
    "type_k": ("--cache-type-k q8_0", "q8_0"),
    "type_v": ("--cache-type-v q4_0", "q4_0"),
    "verbose": ("--verbose", True),
    "learned": ("--no-learned", False),
}
REQUEST = {
    "max_tokens": ("--max-tokens 5", 5),
    "stop": ("--stop a --stop bc", ("a", "bc")),
    "grammar": ("--grammar root::=x", Grammar("root::=x")),
    "logprobs": ("--json --logprobs 3", 3),
    "context_shift": ("--context-shift", True),
    "n_keep": ("--keep 6", 6),
    "draft": ("--draft tree", "tree"),
    "exact": ("--exact", True),
    "raw": ("--raw", True),
}
SAMPLING = {
    "temperature": ("--temperature 0.5", 0.5),
    "dynatemp_range": ("--dynatemp-range 0.2", 0.2),
    "dynatemp_exponent": ("--dynatemp-exp 1.5", 1.5),
    "top_k": ("--top-k 9", 9),
    "top_p": ("--top-p 0.8", 0.8),
    "min_p": ("--min-p 0.1", 0.1),
    "typical_p": ("--typical 0.7", 0.7),
    "top_n_sigma": ("--top-n-sigma 2", 2.0),
    "xtc_probability": ("--xtc-probability 0.4", 0.4),
    "xtc_threshold": ("--xtc-threshold 0.3", 0.3),
    "repeat_last_n": ("--repeat-last-n -1", -1),
    "repeat_penalty": ("--repeat-penalty 1.1", 1.1),
    "presence_penalty": ("--presence-penalty 0.6", 0.6),
    "frequency_penalty": ("--frequency-penalty -0.6", -0.6),
    "dry_multiplier": ("--dry-multiplier 0.8", 0.8),
    "dry_base": ("--dry-base 2", 2.0),
    "dry_allowed_length": ("--dry-allowed-length 3", 3),
    "dry_penalty_last_n": ("--dry-penalty-last-n 128", 128),
    "dry_sequence_breakers": (r"--dry-sequence-breaker \n --dry-sequence-breaker a\tb\\", ("\n", "a\tb\\")),
    "mirostat": ("--mirostat 2", 2),
    "mirostat_tau": ("--mirostat-ent 4", 4.0),
    "mirostat_eta": ("--mirostat-lr 0.2", 0.2),
    "logit_bias": ("--logit-bias 15043+1 --logit-bias 7-0.5 -l 2-inf", ((15043, 1.0), (7, -0.5), (2, -math.inf))),
    "ignore_eos": ("--ignore-eos", True),
    "samplers": ("--samplers penalties;top-k;temp", ("penalties", "top_k", "temperature")),
    "seed": ("--seed 42", 42),
}
# Fields that a command line does not fill: functions, the record of the sampling options themselves, and a way of
# llama_cpp.Llama's that llama.cpp's own programs do not have.
NO_OPTION = {"logits_processors", "stop_tests", "sampling", "penalize_prompt"}


def test_there_is_an_option_for_every_field() -> None:
    assert set(LOADING) == {field.name for field in fields(LoadOptions)}
    assert set(REQUEST) == {field.name for field in fields(GenerateOptions)} - NO_OPTION
    assert set(SAMPLING) == {field.name for field in fields(SamplingOptions)} - NO_OPTION
    filled = {field for table in (LOADING, REQUEST, SAMPLING) for field in table}
    assert filled <= {parameter.name for parameter in generate.params}


@pytest.mark.parametrize(("field", "typed", "value"), [(name, *case) for name, case in LOADING.items()])
def test_a_loading_option_reaches_its_field_and_no_other(call, fake, field: str, typed: str, value: object) -> None:
    assert call("generate", "-m", "m", "-p", "x", *typed.split()).status == 0
    assert fake.loaded == [("m", LoadOptions(**{field: value}))]
    assert LoadOptions(**{field: value}) != LoadOptions()


@pytest.mark.parametrize(("field", "typed", "value"), [(name, *case) for name, case in REQUEST.items()])
def test_a_request_option_reaches_its_field_and_no_other(call, fake, field: str, typed: str, value: object) -> None:
    assert call("generate", "-m", "m", "-p", "x", *typed.split()).status == 0
    assert fake.asked == [("x", GenerateOptions(**{"max_tokens": 1024, field: value}))]
    assert GenerateOptions(**{field: value}) != GenerateOptions()


@pytest.mark.parametrize(("field", "typed", "value"), [(name, *case) for name, case in SAMPLING.items()])
def test_a_sampling_option_reaches_its_field_and_no_other(call, fake, field: str, typed: str, value: object) -> None:
    assert call("generate", "-m", "m", "-p", "x", "--temp", "0.7", *typed.split()).status == 0
    assert fake.asked[0][1].sampling == SamplingOptions(**{"temperature": 0.7, field: value})
    assert SamplingOptions(**{field: value}) != SamplingOptions()


@pytest.mark.parametrize("field", ASK_FOR_SAMPLING)
def test_an_option_that_asks_for_sampling_sets_the_temperature(call, fake, field: str) -> None:
    assert call("generate", "-m", "m", "-p", "x", *SAMPLING[field][0].split()).status == 0
    assert fake.asked[0][1].sampling == SamplingOptions(**{"temperature": 0.8, field: SAMPLING[field][1]})


def test_the_options_that_ask_for_sampling_are_those_of_their_section() -> None:
    title = DRAWING.title
    section = {option.name for option in generate.params if getattr(option, "section", None) == title}
    assert section == {"temperature", *ASK_FOR_SAMPLING}


@pytest.mark.parametrize("option", [f"{SAMPLING[name][0]} --temperature 0" for name in ("seed", "mirostat")])
def test_a_given_temperature_stays(call, fake, option: str) -> None:
    call("generate", "-m", "m", "-p", "x", *option.split())
    assert fake.asked[0][1].sampling.temperature == 0


@pytest.mark.parametrize("field", sorted(set(SAMPLING) - set(ASK_FOR_SAMPLING) - {"temperature"}))
def test_a_penalty_or_a_bias_does_not_sample(call, fake, field: str) -> None:
    call("generate", "-m", "m", "-p", "x", *SAMPLING[field][0].split())
    assert fake.asked[0][1].sampling == SamplingOptions(**{field: SAMPLING[field][1]})


def test_no_filters_and_no_sequence_breakers_can_be_asked_for(call, fake) -> None:
    call("generate", "-m", "m", "-p", "x", "--samplers", "", "--dry-sequence-breaker", "none")
    assert fake.asked[0][1].sampling == SamplingOptions(temperature=0.8, samplers=(), dry_sequence_breakers=())


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("--logit-bias 5", "--logit-bias: '5' is no bias: give TOKEN+BIAS or TOKEN-BIAS, as 15043-1"),
        ("--logit-bias x-1", "--logit-bias: 'x-1' is no bias: give TOKEN+BIAS"),
        ("--logit-bias 5--", "--logit-bias: '5--' is no bias: give TOKEN+BIAS"),
        ("--logit-bias 5+inf", "logit_bias is ((5, inf),); give pairs of a token and a number"),
        ("--logit-bias 99999999999+1", "logit_bias is ((99999999999, 1.0),); give pairs of a token"),
        ("--samplers top_q", "--samplers: 'top_q' is no sampler: give names out of penalties;dry;"),
        ("--samplers top_k;top-k", "samplers is ('top_k', 'top_k'); give names out of penalties, dry"),
        ("--dry-sequence-breaker \udcff", "the text of --dry-sequence-breaker: the byte 0xff at offset 0 is not"),
        ("--mirostat 3", "mirostat is 3; give 0, 1 or 2"),
        ("--keep -1", "n_keep is -1; give a whole number from 0 up"),
        ("--xtc-threshold 2", "xtc_threshold is 2.0; give a number from 0 to 1"),
        ("--grammar \udcff", "the text of --grammar: the byte 0xff at offset 0 is not UTF-8"),
        ("--grammar x --json-object", "--grammar and --json-object both say what the answer may be: give one"),
        ("--json-schema {} --grammar-file x", "--grammar-file and --json-schema both say what the answer may be"),
        ("--grammar-file none.gbnf", "none.gbnf: the grammar file cannot be read (No such file"),
        ("--json-schema-file none.json", "none.json: the schema file cannot be read (No such file"),
        ("-j {", "--json-schema: the JSON schema is not JSON: Expecting property name"),
        ("-j 5", "--json-schema: the JSON schema is 5: give an object"),
    ],
)
def test_a_value_that_cannot_be_used_is_one_line_and_nothing_is_loaded(call, fake, typed: str, line: str) -> None:
    status, out, err = call("generate", "-m", "m", "-p", "x", *typed.split())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {line}")
    assert fake.loaded == []


def test_grammars_and_schemas_come_from_texts_and_files(call, fake, tmp_path) -> None:
    (tmp_path / "rules").write_text("root ::= é\n", "utf-8")
    (tmp_path / "schema").write_text('{"type": "object"}')
    schema = schema_grammar({"type": "object"})
    for typed, grammar in (
        (["--grammar-file", str(tmp_path / "rules")], Grammar("root ::= é\n")),
        (["--json-object"], json_grammar()),
        (["--json-schema-file", str(tmp_path / "schema")], schema),
        (["--json-schema", '{"type": "object"}'], schema),
    ):
        assert call("generate", "-m", "m", "-p", "x", *typed).status == 0
        assert fake.asked[-1][1].grammar == grammar


def test_brackets_without_end_are_no_schema(call, tmp_path) -> None:
    (tmp_path / "deep").write_text("[" * 100_000)
    status, _, err = call("generate", "-m", "m", "-p", "x", "--json-schema-file", str(tmp_path / "deep"))
    assert (status, err.count("\n")) == (2, 1)
    assert "deep: the JSON schema is not JSON: maximum recursion depth" in err


def test_the_help_shows_the_options_by_section_each_with_its_default(call) -> None:
    out = call("generate", "--help").out
    titles = [line for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == [
        "Options:",
        "Answer:",
        "Form of the answer, one of these at most:",
        "Sampling:",
        "Penalties and biases, greedy or not:",
        "Loading:",
    ]
    without = {"verbose", "learned", "stop", "grammar", "logprobs", "context_shift", "exact", "raw"}
    without |= {"logit_bias", "ignore_eos"}
    shown = len({*LOADING, *REQUEST, *SAMPLING} - without) + len(["model", "color"])
    assert " ".join(out.split()).count("[default: ") == shown
    assert out.index("\nSampling:") < out.index("--min-p") < out.index("\nPenalties") < out.index("--dry-base")
