"""The /commands of a chat."""

from __future__ import annotations

import json

import pytest

from recycle_cpp.cli.chat.commands import COMMANDS
from recycle_cpp.errors import PromptTooLongError
from recycle_cpp.text.grammars import json_grammar
from recycle_cpp.types import ChatOptions, Message, SamplingOptions


@pytest.fixture
def chat(call):
    """Run a chat of these lines and return its outcome."""

    def chat_of(*lines: str, arguments: tuple[str, ...] = ()):
        return call("chat", "-m", "m", *arguments, stdin="\n".join(lines).encode())

    return chat_of


def last_asked(fake) -> list[str]:
    return [f"{message.role}: {message.content}" for message in fake.asked[-1][0]]


def test_two_slashes_send_a_text_that_begins_with_one(chat, fake) -> None:
    assert chat("//etc/hosts", "///").out == "/etc/hosts\n//\n"
    assert last_asked(fake) == ["user: /etc/hosts", "assistant: /etc/hosts", "user: //"]


def test_help_names_every_command_and_nothing_reaches_standard_output(chat) -> None:
    status, out, err = chat("/help")
    assert (status, out) == (0, "")
    for name, command in COMMANDS.items():
        assert any(line.startswith(f"/{name} ") and command.text in line for line in err.splitlines())


def test_system_takes_effect_from_the_next_answer_and_the_conversation_stays(chat, fake) -> None:
    err = chat("/system", "a", "/system be  brief", "/system", "b").err
    assert last_asked(fake) == ["system: be  brief", "user: a", "assistant: a", "user: b"]
    assert [line for line in err.splitlines() if "tok/s" not in line] == [
        "there is no system message",
        "system: be  brief",
        "system: be  brief",
    ]
    chat("/system -", "c", arguments=("--system", "given"))
    assert last_asked(fake) == ["user: c"]
    chat("c", arguments=("--system", "given"))
    assert last_asked(fake) == ["system: given", "user: c"]


def test_reset_forgets_the_conversation_but_not_the_system_message(chat, fake) -> None:
    err = chat("/system s", "a", "/reset", "b").err
    assert last_asked(fake) == ["system: s", "user: b"]
    assert "the conversation is forgotten; the system message stays\n" in err


def test_undo_takes_back_question_and_answer(chat, fake) -> None:
    err = chat("a", "b" * 70, "/undo", "c", "/undo", "/undo", "d").err
    assert [len(messages) for messages, _ in fake.asked] == [1, 3, 3, 1]
    assert last_asked(fake) == ["user: d"]
    assert f"taken back: {'b' * 60}...\n" in err
    assert "taken back: a\n" in err


def test_retry_answers_the_last_question_again_with_a_fresh_seed(chat, fake) -> None:
    assert chat("a", "b", "/retry", "c", arguments=("--seed", "7")).out == "a\nb\nb\nc\n"
    (_, first), (asked, second), (again, third), (after, fourth) = fake.asked
    assert asked == again
    assert [request.sampling.seed for request in (first, second, third, fourth)] == [7, 7, None, 7]
    assert [message.content for message in after] == ["a", "a", "b", "b", "c"]


def test_a_greedy_retry_asks_for_the_same(chat, fake) -> None:
    chat("a", "/retry")
    assert fake.asked[0] == fake.asked[1]


def test_an_answer_that_fails_on_retry_leaves_the_old_one(chat, fake, monkeypatch) -> None:
    from recycle_cpp.errors import UsageError

    streams = iter([fake.stream_chat, None, fake.stream_chat])

    def once_refused(*arguments, **named):
        stream = next(streams)
        if stream is None:
            raise UsageError("refused")
        return stream(*arguments, **named)

    monkeypatch.setattr(fake, "stream_chat", once_refused, raising=False)
    chat("a", "/retry", "b")
    assert last_asked(fake) == ["user: a", "assistant: a", "user: b"]


def test_save_and_load_keep_all_messages(chat, fake, tmp_path) -> None:
    file = tmp_path / "a b.session"
    err = chat("/system s", "a", f"/save {file}", "/reset", "/system -", "b", f"/load {file}", "c").err
    assert [fields[:2] for fields in json.loads(file.read_text())] == [
        ["system", "s"],
        ["user", "a"],
        ["assistant", "a"],
    ]
    assert last_asked(fake) == ["system: s", "user: a", "assistant: a", "user: c"]
    assert f"saved: {file}\n" in err
    assert "2 messages restored: /show shows them\n" in err


def test_save_without_a_name_takes_the_file_of_the_session(chat, tmp_path) -> None:
    file = tmp_path / "session"
    assert f"saved: {file}\n" in chat("a", "/save", arguments=("--session", str(file))).err


def test_show_shows_the_conversation_and_can_do_nothing_to_a_terminal(chat) -> None:
    status, out, err = chat("/show", "/system s", "x\x1b[2Jy", "draft", "/show")
    assert (status, out) == (0, "x\x1b[2Jy\na\nbc\n")
    assert err.startswith("nothing was said yet\n")
    assert err.endswith("system: s\nuser: x\\x1b[2Jy\nassistant: x\\x1b[2Jy\nuser: draft\nassistant: a\nbc\n")


def test_stats_sum_up_all_answers_and_say_how_full_the_context_is(chat) -> None:
    assert chat("/stats").err == "no answer yet\ncontext: 0 of 1000 tokens used\n"
    lines = chat("almost", "full", "/stats").err.splitlines()
    assert lines[-5].startswith("last answer: the m · 120 tokens (the limit) · 48.0 tok/s")
    assert lines[-4:] == [
        "answers: 2, 240 tokens, 48.0 tok/s",
        "drafts: 2.03 tokens per step, 51% of the tokens recycled",
        "prompts: 1740 tokens cached, 62 evaluated",
        "context: 20 of 1000 tokens used",
    ]


def test_a_context_that_is_full_or_almost_full_is_told(chat) -> None:
    more = "/reset forgets the conversation, /set context-shift on drops its older half when it must"
    assert f"the context of 1000 tokens is full, and the answer is cut: {more}\n" in chat("full").err
    assert f"the context is almost full, 910 of 1000 tokens: {more}\n" in chat("almost").err
    assert "is almost full" not in chat("almost", arguments=("--context-shift",)).err
    assert "is full" not in chat("full", arguments=("--max-tokens", "100")).err, "max_tokens has cut it"
    assert "full" not in chat("a").err


def test_settings_change_by_any_of_their_names_and_go_back(chat, fake) -> None:
    lines = ["/set temp 0.5", "/set top_k 7", "/set --min-p 0.1", "/set stop 'a b' c", "/set ignore-eos on", "x"]
    chat(*lines, "/set ignore-eos off", "/set stop default", "/set top-k default", "/set logit-bias 5-inf", "y")
    assert fake.asked[0][1] == ChatOptions(
        max_tokens=1024,
        stop=("a b", "c"),
        sampling=SamplingOptions(temperature=0.5, top_k=7, min_p=0.1, ignore_eos=True),
    )
    assert fake.asked[1][1].stop == ()
    assert fake.asked[1][1].sampling == SamplingOptions(temperature=0.5, min_p=0.1, logit_bias=((5, float("-inf")),))


def test_a_setting_that_is_refused_changes_nothing(chat, fake) -> None:
    status, _, err = chat("/set top-k 7", "/set top-k -7", "/set json-object on", "/set grammar x", "a")
    assert (status, err.count("error: ")) == (2, 2)
    assert "error: --grammar and --json-object both say what the answer may be" in err
    assert fake.asked[0][1].sampling.top_k == 7
    assert fake.asked[0][1].grammar == json_grammar()


def test_set_alone_lists_what_is_set(chat) -> None:
    err = chat(
        "/set", "/set samplers top_k;temperature", "/set context-shift on", "/set", arguments=("--stop", "a b")
    ).err
    assert err.splitlines()[0] == "stop 'a b'"
    assert err.splitlines()[2:5] == ["stop 'a b'", "context-shift on", "samplers top_k;temperature"]
    assert chat("/set").err.startswith("all settings have their defaults\nsettings: max-tokens, ")


def test_colour_can_be_turned_on_and_off_in_the_chat(chat) -> None:
    out = chat("draft", "/color off", "draft", "/color on", "draft", arguments=("--color", "always")).out
    assert out.count("\x1b[39mc\n") == 2
    assert "a\nbc\n" in out


def test_a_loading_option_is_no_setting(chat) -> None:
    assert "error: /set: there is no setting n_ctx" in chat("/set n_ctx 5").err


def test_notes_are_shown_once_with_exact_and_at_the_end_with_verbose(chat) -> None:
    note = "note: drafting is off: 81 rows cost 18x one row here\n"
    assert chat("a", "b", arguments=("--exact",)).err.count(note) == 1
    assert chat("a", "b", arguments=("--verbose",)).err.endswith(note)
    assert chat("a", "b").err.count(note) == 0


def test_a_conversation_begins_with_any_messages() -> None:
    from recycle_cpp.cli.chat.conversation import Conversation

    late = [Message("user", "a"), Message("system", "s")]
    assert Conversation(late).messages == late
    assert Conversation(late).system == ""
    assert Conversation().up_to_last_question() == []


def test_where_shifting_is_on_older_turns_make_room_for_a_message(chat, fake, monkeypatch) -> None:
    answer = fake.stream_chat

    def narrow(messages, *arguments, **named):
        if len(messages) > 4:
            raise PromptTooLongError("the prompt has 1100 tokens, the context 1000: raise --ctx-size")
        return answer(messages, *arguments, **named)

    monkeypatch.setattr(fake, "stream_chat", narrow)
    without = chat("one", "two", "three")
    assert (without.status, without.err.count("the message is not kept")) == (2, 1)
    shifted = chat("one", "two", "three", arguments=("--context-shift", "--system", "s"))
    assert (shifted.status, shifted.err.count("only the last 3 messages are kept")) == (0, 1)
    assert last_asked(fake) == ["system: s", "user: two", "assistant: two", "user: three"]
