"""Within a grammar: what llama.cpp's own programs choose and no token outside it; no broken one ends the process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from chains_reference import WholeGrammar
from hypothesis import given, settings
from hypothesis import strategies as st

from recycle_cpp.backend.library import load_library
from recycle_cpp.backend.model import LlamaModel
from recycle_cpp.decoding.sampling.candidates import Candidates
from recycle_cpp.decoding.sampling.complaints import captured_complaints
from recycle_cpp.decoding.sampling.grammar import GrammarSampler
from recycle_cpp.decoding.sampling.pieces import Pieces
from recycle_cpp.decoding.sampling.rules import Rules, _split
from recycle_cpp.decoding.sampling.samplers import NOTHING
from recycle_cpp.errors import UsageError
from recycle_cpp.types import Grammar, LoadOptions, SamplingOptions

JSON = r"""
root ::= object
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4})){0,12} "\"" ws
number ::= "-"? ([0-9] | [1-9] [0-9]{0,15}) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
"""
SEEDS = st.integers(0, 2**32 - 2)


@pytest.fixture(scope="module")
def model(model_file):
    loaded = LlamaModel(model_file("smollm2-135m-instruct-q4_1.gguf"), LoadOptions())
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def vocab(model):
    return model.sampler_vocabulary(512)


class Text:
    """Rows of logits of a made-up model: some favourites, and a lot of noise."""

    def __init__(self, model: LlamaModel, seed: int, liked: str = '{"a": [1, 2.5, true], "b": "c d"}\n') -> None:
        self.rng = np.random.default_rng(seed)
        self.favourites = self.rng.normal(0, 1, model.n_vocab).astype(np.float32)
        for piece in (*liked, liked):
            self.favourites[model.tokenize(piece, add_special=False, parse_special=False)] += 4
        self.favourites[list(model.sampler_vocabulary(8).eog)] += 5

    def row(self) -> np.ndarray:
        return self.favourites + self.rng.normal(0, 2, len(self.favourites)).astype(np.float32)


def text_of(model: LlamaModel, tokens: list[int]) -> str:
    return b"".join(model.piece(token, special=True) for token in tokens).decode("utf-8", "replace")


def run(sampler, model, text: Text, n: int) -> list[int]:
    tokens = []
    for _ in range(n):
        row = text.row()
        tokens.append(sampler.sample(row, int(row.argmax())))
        if tokens[-1] == NOTHING or model.is_eog(tokens[-1]):
            break
    return tokens


SAMPLINGS = {
    "greedy": SamplingOptions(),
    "penalised": SamplingOptions(repeat_penalty=1.4, presence_penalty=0.5, repeat_last_n=-1, logit_bias=((90, 3.0),)),
    "dry": SamplingOptions(dry_multiplier=3.0, dry_allowed_length=1),
    "typical": SamplingOptions(typical_p=0.8, top_k=0),
    "warm": SamplingOptions(temperature=0.9, seed=4),
    "open": SamplingOptions(temperature=1.0, top_k=0, top_p=1.0, seed=4),
    "xtc": SamplingOptions(temperature=1.0, xtc_probability=0.5, repeat_penalty=1.2, seed=4),
    "mirostat": SamplingOptions(temperature=1.0, mirostat=2, seed=4),
}


@pytest.mark.parametrize("name", SAMPLINGS)
def test_every_choice_is_that_of_llama_cpps_own_programs(model, vocab, name: str) -> None:
    grammar, options, n_chosen = Grammar(JSON), SAMPLINGS[name], 0
    for seed in range(3):
        ours, whole = GrammarSampler(grammar, options, vocab, [1, 2]), WholeGrammar(grammar, options, vocab, [1, 2])
        text = Text(model, seed)
        for _ in range(40):
            row = text.row()
            token = ours.sample(row, int(row.argmax()))
            assert token == whole.sample(row)
            n_chosen += 1
            if model.is_eog(token):
                break
        whole.close()
        ours.close()
    assert n_chosen > 20


@settings(max_examples=12)
@given(seed=SEEDS, name=st.sampled_from(sorted(SAMPLINGS)))
def test_what_ends_by_itself_parses(model, vocab, seed: int, name: str) -> None:
    sampler = GrammarSampler(Grammar(JSON), SAMPLINGS[name], vocab, [])
    tokens = run(sampler, model, Text(model, seed), 150)
    if model.is_eog(tokens[-1]):
        json.loads(text_of(model, tokens[:-1]))
    else:
        assert len(tokens) == 150


@pytest.mark.parametrize("name", SAMPLINGS)
def test_a_finished_grammar_without_an_end_of_generation_ends_the_answer(model, vocab, name: str) -> None:
    options = SAMPLINGS[name]
    forbidden = SamplingOptions(
        **{field: getattr(options, field) for field in options.__dataclass_fields__} | {"ignore_eos": True}
    )
    sampler = GrammarSampler(Grammar('root ::= "yes"'), forbidden, vocab, [])
    tokens = run(sampler, model, Text(model, 1), 10)
    assert tokens[-1] == NOTHING
    assert text_of(model, tokens[:-1]) == "yes"


def test_an_end_of_generation_comes_only_where_the_grammar_is_complete(model, vocab) -> None:
    row = np.zeros(model.n_vocab, np.float32)
    row[model.eos] = 50
    sampler = GrammarSampler(Grammar('root ::= "yes"'), SamplingOptions(), vocab, [])
    tokens = [sampler.sample(row, model.eos)]
    while not model.is_eog(tokens[-1]):
        tokens.append(sampler.sample(row, model.eos))
    assert text_of(model, tokens[:-1]) == "yes"
    assert tokens[-1] == model.eos


CALL = 'root ::= "<call>" [a-z]{2,4} "</call>"'


def test_text_before_a_trigger_is_free_and_after_it_is_the_grammars(model, vocab) -> None:
    sampler = GrammarSampler(Grammar(CALL, triggers=("<call>",)), SamplingOptions(), vocab, [])
    free = model.tokenize("Hello {]! Now <call>", add_special=False, parse_special=False)
    for token in free:
        row = np.zeros(model.n_vocab, np.float32)
        row[token] = 9
        assert sampler.sample(row, token) == token
    tokens = run(sampler, model, Text(model, 3, "Z{]. xyz</call>"), 30)
    body = text_of(model, tokens[:-1])
    assert model.is_eog(tokens[-1])
    assert body.endswith("</call>") and body[:-7].isalpha() and 2 <= len(body[:-7]) <= 4


@settings(max_examples=25)
@given(seed=SEEDS, trigger=st.sampled_from(["<call>", "l>", "<", "token"]))
def test_a_lazy_grammar_chooses_what_llama_cpps_does(model, vocab, seed: int, trigger: str) -> None:
    rules = r'root ::= [<l>a-zA-Z{}\n"1-9:,. ]*'  # what llama.cpp could not accept would end this process
    pieces = model.tokenize("<call>", add_special=False, parse_special=False)
    names = {"triggers": (), "trigger_tokens": (pieces[0],)} if trigger == "token" else {"triggers": (trigger, "qq")}
    grammar = Grammar(rules, **names)
    ours, whole = (kind(grammar, SamplingOptions(), vocab, []) for kind in (GrammarSampler, WholeGrammar))
    text = Text(model, seed, "<call>a{}1")
    mask = np.full(model.n_vocab, -np.inf, np.float32)
    free = model.tokenize("<call>{}1a", add_special=False, parse_special=False)
    mask[[*free, 1000 + seed % 20000, model.eos]] = 0
    for _ in range(30):
        row = text.row() + mask
        token = ours.sample(row, int(row.argmax()))
        assert token == whole.sample(row)
        if token == NOTHING or model.is_eog(token):
            break


def test_a_token_that_completes_a_trigger_and_breaks_the_rules_is_not_chosen(model, vocab) -> None:
    sampler = GrammarSampler(Grammar('root ::= "{" [a-z]+ "}"', triggers=("{",)), SamplingOptions(), vocab, [])
    wrong, right = (model.tokenize(text, add_special=False, parse_special=False) for text in ('{"', " {"))
    assert len(wrong) == len(right) == 1
    row = np.zeros(model.n_vocab, np.float32)
    row[wrong[0]], row[right[0]] = 9, 8
    assert sampler.sample(row, wrong[0]) == right[0]
    row[model.tokenize("a", add_special=False, parse_special=False)[0]] = 5
    assert text_of(model, [sampler.sample(row, wrong[0])]) == "a"


@pytest.mark.parametrize(
    "names, line",
    [
        ({"triggers": ("<tool>",)}, "the grammar does not begin with its trigger '<tool>': let its root do so"),
        ({"trigger_tokens": (5,)}, "the grammar does not begin with its trigger token 5: let its root do so"),
        ({"trigger_tokens": (99999999,)}, "the grammar has trigger token 99999999; give tokens from 0 to 49151"),
        ({"triggers": ("\ud800",)}, "a trigger of the grammar has an unpaired surrogate at character 0: remove it"),
    ],
)
def test_a_trigger_that_the_rules_do_not_begin_with_is_one_line(vocab, names: dict, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        GrammarSampler(Grammar(CALL, **names), SamplingOptions(), vocab, [])
    assert str(caught.value) == line


def test_a_trigger_token_without_text_puts_the_rules_in_force_too(model, vocab, monkeypatch) -> None:
    token, real = 100, Pieces.of
    monkeypatch.setattr(Pieces, "of", lambda pieces, asked: b"" if asked == token else real(pieces, asked))
    grammar = Grammar(f'root ::= <[{token}]> "yes"', trigger_tokens=(token,))
    sampler = GrammarSampler(grammar, SamplingOptions(), vocab, [])
    yes, no = (model.tokenize(text, add_special=False, parse_special=False)[0] for text in ("yes", "no"))
    row = np.zeros(model.n_vocab, np.float32)
    row[[token, no, yes]] = 9, 8, 7
    assert sampler.sample(row, token) == token
    assert sampler.sample(row, token) == yes


def test_the_tokens_of_a_trigger_are_found_though_a_tokenizer_puts_a_space_before_texts(vocab, monkeypatch) -> None:
    real, pieces = Pieces.tokenize, Pieces(vocab)
    expected = pieces.tokens_of(b"yes")
    monkeypatch.setattr(Pieces, "tokenize", lambda asked, data: real(asked, b" " + data))
    assert pieces.tokens_of(b"yes") == expected
    assert expected is not None


def test_reading_rules_leaves_no_file_open(vocab) -> None:
    before = len([*Path("/dev/fd").iterdir()])
    for _ in range(5):
        Rules.read(JSON, "root", vocab, Candidates(vocab.n_vocab)).close()
    assert len([*Path("/dev/fd").iterdir()]) == before


def test_what_others_write_to_standard_error_while_rules_are_read_is_not_lost(vocab, capfd) -> None:
    ended, lines = threading.Event(), 0

    def write() -> None:
        nonlocal lines
        while not ended.is_set():
            os.write(2, b"other\n")
            lines += 1

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(20):
        Rules.read(JSON, "root", vocab, Candidates(vocab.n_vocab)).close()
    ended.set()
    writer.join()
    assert capfd.readouterr().err == "other\n" * lines


def test_an_interrupt_while_llama_cpp_writes_of_a_grammar_is_raised_behind_it(vocab, monkeypatch) -> None:
    log = load_library().log
    monkeypatch.setattr(log, "_interrupted", True)
    with pytest.raises(KeyboardInterrupt):
        Rules.read(JSON, "root", vocab, Candidates(vocab.n_vocab))
    Rules.read(JSON, "root", vocab, Candidates(vocab.n_vocab)).close()


def nested(depth: int) -> str:
    return "root ::= " + "(" * depth + '"a"' + ")" * depth


def chain_of_rules(n: int, twice: bool = False) -> str:
    below = [f"r{i} ::= r{i + 1}" + f" | r{i + 1}" * twice for i in range(n)]
    return "\n".join(["root ::= r0", *below, f'r{n} ::= "a"'])


BROKEN = {
    "": "no text: give GBNF rules",
    "  # only this": "cannot be read: failed to parse grammar",
    "root ::= [a": "cannot be read: unexpected end of input",
    "root = a": "cannot be read: expecting ::= at = a",
    "root ::= x": "cannot be read: Undefined rule identifier 'x'",
    'rot ::= "a"': "cannot be read: grammar does not contain a 'root' symbol",
    'root ::= "a\\q"': 'cannot be read: unknown escape at \\q"',
    'root ::= "a" )': "cannot be read: expecting newline or end at )",
    'root ::= (|"a")*': "cannot be read: unsupported grammar, left recursion",
    'root ::= "a"{5000}': "cannot be read: number of repetitions exceeds sane defaults",
    "root ::= <nope>": "cannot be read: invalid token '<nope>'",
    'root ::= root "a" | "b"': "rule root may call itself before it has read anything (left recursion)",
    'root ::= ws root "a" | "b"\nws ::= " "?': "rule root may call itself before it has read anything (left recursion)",
    'root ::= (root)* "x"': "rule root may call itself before it has read anything (left recursion)",
    "root ::= a\na ::= a": "rule root can match no text",
    'root ::= "x" e\ne ::= f e\nf ::= g\ng ::= ""': "rule e can match no text",
    'root ::= "a" !<[5]>': "rule root has a token right behind text",
    'root ::= <|im_start|> x\nx ::= !<[5]> [a-z]+ x | ""': "rule x has a token right behind text",
    "root ::= (!<[5]> .?)*": "rule root has a token right behind text",
    'root ::= "a"{3,1}': "repeats a part {3,1} times: give the smaller number first",
    'root ::= "a"{99999999999999999999}': "times: 2000 are the most",
    'root ::= "' + "a" * 100_000 + '"{2000}': "is too large, its repetitions written out",
    nested(50_000): "has brackets 100 deep",
    chain_of_rules(15_000): "begins with too many rules within rules",
    chain_of_rules(60, twice=True): "begins with too many rules within rules",
    'root ::= "a\0b"': "text has a NUL at character 11: remove it",
    'root ::= "\ud800"': "text has an unpaired surrogate at character 10: remove it",
}


@pytest.mark.parametrize("text", BROKEN, ids=[repr(text[:30]) for text in BROKEN])
def test_a_broken_grammar_is_one_line_and_nothing_else_on_standard_error(vocab, text: str, capfd) -> None:
    with pytest.raises(UsageError) as caught:
        Rules.read(text, "root", vocab, Candidates(vocab.n_vocab))
    line = str(caught.value)
    assert line.startswith("the grammar") and BROKEN[text] in line
    assert "\n" not in line and len(line) < 300
    assert capfd.readouterr() == ("", "")


def test_what_others_write_to_standard_error_meanwhile_is_no_complaint_and_not_lost() -> None:
    with captured_complaints() as captured:
        os.write(2, b"one\nparse: error parsing grammar: it is\nbad\n\nroot ::= x\ntwo\n")
    assert _split(captured.text, b"root ::= x") == ("it is bad", b"one\ntwo\n")
    assert _split(b"other\n", b"root ::= x") == ("", b"other\n")


FINE = [
    nested(90),
    chain_of_rules(800),
    'root ::= (("a"?)*)* "b"',
    "root ::= [^]",
    r"root ::= [\x00-\U0010FFFF]*",
    'root::="a" # comment\n\n',
    'root ::= "a"{0} "b"{2,}',
    'root ::= ws root | "x"\nws ::= " "?',
    "root ::= <|im_start|> !<|im_end|>*",
    'root ::= (("a"{1000}){1000}){1000}',
]


@pytest.mark.parametrize("text", FINE, ids=[repr(text[:30]) for text in FINE])
def test_a_grammar_that_llama_cpp_can_read_is_read(vocab, text: str) -> None:
    rules = Rules.read(text, "root", vocab, Candidates(vocab.n_vocab))
    assert rules.allowed(np.arange(vocab.n_vocab, dtype=np.int32)).any()
    rules.close()
    rules.close()


def test_a_named_token_is_not_read_by_halves(model, vocab) -> None:
    able = model.tokenize("able", add_special=False, parse_special=False)[0]
    a = model.tokenize("a", add_special=False, parse_special=False)[0]

    def may_begin(text: str) -> bool:
        rules = Rules.read(text.replace("ABLE", f"<[{able}]>"), "root", vocab, Candidates(vocab.n_vocab))
        yes = bool(rules.allowed([able])[0])
        if yes:
            rules.accept(able)  # llama.cpp would end the process if it could not
        return yes

    assert may_begin("root ::= ABLE")
    assert may_begin('root ::= "abl" "e" | "a" ABLE')
    assert may_begin(".* ABLE".join(["root ::= ", ""]))
    assert not may_begin('root ::= "a" ABLE')
    rules = Rules.read(f'root ::= "a" <[{able}]>', "root", vocab, Candidates(vocab.n_vocab))
    rules.accept(a)
    assert rules.allowed([able, a]).tolist() == [True, False]


def test_random_rules_end_no_process(model_file) -> None:
    code = (
        "import random, sys\n"
        "from pathlib import Path\n"
        "from recycle_cpp.backend.model import LlamaModel\n"
        "from recycle_cpp.decoding.sampling.candidates import Candidates\n"
        "from recycle_cpp.decoding.sampling.rules import Rules\n"
        "from recycle_cpp.errors import UsageError\n"
        "from recycle_cpp.types import LoadOptions\n"
        "vocab = LlamaModel(Path(sys.argv[1]), LoadOptions()).sampler_vocabulary(64)\n"
        "buffer, rng, read = Candidates(vocab.n_vocab), random.Random(1), 0\n"
        "parts = ['a', 'b', 'root', '\"x\"', '\"yz\"', '[a-c]', '[^q]', '.', '(', ')', '|', '*', '+', '?', '{2}',\n"
        "         '{0,3}', '{4,2}', ' ', '\\n', '::=', '\\na ::= ', '\\nb ::= ', '<[9]>', '!',\n"
        "         '<[515]>', '!<[515]>', '\"ab\"', '\"', '#', '\\\\']\n"
        "for _ in range(6000):\n"
        "    text = 'root ::= ' + ' '.join(rng.choices(parts, k=rng.randint(1, 14)))\n"
        "    try:\n"
        "        rules = Rules.read(text, 'root', vocab, buffer)\n"
        "    except UsageError as error:\n"
        "        assert len(str(error).splitlines()) == 1, error\n"
        "        continue\n"
        "    read += 1\n"
        "    for _ in range(4):\n"
        "        some = [rng.randrange(3, vocab.n_vocab) for _ in range(40)] + list(range(30, 130)) + [515] * 30\n"
        "        allowed = [t for t, yes in zip(some, rules.allowed(some)) if yes]\n"
        "        if not allowed: break\n"
        "        rules.accept(rng.choice(allowed))\n"
        "print(read)\n"
    )
    path = model_file("smollm2-135m-instruct-q4_1.gguf")
    ended = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert int(ended.stdout) > 300
