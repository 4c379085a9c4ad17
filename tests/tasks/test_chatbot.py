"""Chat: what must hold whatever the model says."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clearhead
from clearhead import Chatbot
from clearhead.data.examples import Conversation
from clearhead.data.store import temporary_store
from clearhead.errors import TextError
from clearhead.tasks.chat import ChatTask, exchanges
from clearhead.tasks.task import Kept
from tasks.random_runs import random_folder

LIMIT = 60
SHORT = {"max_length": 8}
TURN = st.sampled_from(["the cat", "we eat bread ,", "ein Hund", "</s> <bot>", "12"])


@pytest.fixture(scope="module", params=["encoder-decoder", "decoder"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Chatbot:
    path = tmp_path_factory.mktemp("runs") / "random"
    return clearhead.load(random_folder(path, "chat", request.param, max_length=LIMIT))


@pytest.fixture
def bot(trained: Chatbot) -> Chatbot:
    trained.reset()
    return trained


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Chatbot:
    return Chatbot.load(
        random_folder(tmp_path_factory.mktemp("runs") / "run", "chat", "decoder", max_length=LIMIT)
    )


@settings(max_examples=6)
@given(st.lists(TURN, min_size=1, max_size=3))
def test_what_is_streamed_is_what_is_replied(trained: Chatbot, texts: list[str]) -> None:
    trained.reset()
    replies = [trained.reply(text, **SHORT) for text in texts]
    trained.reset()
    for text, reply in zip(texts, replies, strict=True):
        stream = Kept(trained.stream(text, **SHORT))
        assert "".join(stream) == reply.text == str(reply)
        assert stream.value == reply
    assert trained.turns == [
        turn for text, reply in zip(texts, replies, strict=True) for turn in (text, reply.text)
    ]


def test_the_same_seed_and_words_make_the_same_conversation(bot: Chatbot) -> None:
    talks = []
    for seed in (1, 1, 2):
        bot.reset()
        talks.append(
            [bot.reply(text, seed=seed, **SHORT).text for text in ("the cat", "bread", "the cat")]
        )
    assert talks[0] == talks[1] != talks[2]


def test_retry_takes_the_last_reply_back_and_draws_another(bot: Chatbot) -> None:
    bot.reply("bread", **SHORT)
    first = bot.reply("the cat", **SHORT)
    again = bot.retry(**SHORT)
    assert again.seed == first.seed + 1
    assert bot.turns[2:] == ["the cat", again.text]
    bot.reset()
    with pytest.raises(TextError, match="nothing was said"):
        bot.retry()


def test_a_reply_that_is_not_waited_for_is_remembered_as_far_as_it_went(bot: Chatbot) -> None:
    whole = bot.reply("the cat", **SHORT).text
    bot.reset()
    stream = bot.stream("the cat", **SHORT)
    said = next(stream) + next(stream)
    stream.close()
    assert bot.turns == ["the cat", said]
    assert whole.startswith(said)


def test_an_answer_to_a_conversation_given_whole_remembers_nothing(bot: Chatbot) -> None:
    bot.reply("bread", **SHORT)
    before = list(bot.turns)
    found = bot.answer([*before, "the cat"], seed=1, **SHORT)
    assert bot.turns == before
    assert bot.reply("the cat", seed=0, **SHORT) == found


def test_a_bot_that_learned_pairs_reads_the_last_turn_and_one_that_learned_conversations_all(
    bot: Chatbot,
) -> None:
    options = bot.config.decode.but(**SHORT)
    long, short = (
        bot.context(turns, options)[0] for turns in (["bread", "12", "the cat"], ["the cat"])
    )
    assert (long == short) == bot.reads_question
    assert len(long) >= len(short)


@given(st.lists(TURN, min_size=1, max_size=31).filter(lambda turns: len(turns) % 2 == 1))
def test_a_long_conversation_is_cut_from_its_oldest_turn_and_says_so(
    decoder: Chatbot, turns: list[str]
) -> None:
    bot = decoder
    ids, notes = bot.context(turns, bot.config.decode.but(max_length=20))
    everything = bot.read(turns)
    assert len(ids) <= LIMIT - 20 or len(ids) == len(bot.read(turns[-1:]))
    assert ids[0] == bot.target.start
    assert ids[1] == bot.target.user
    assert ids[1:] == everything[len(everything) - len(ids) + 1 :]
    assert bool(notes) == (len(everything) > LIMIT - 20)


def test_a_message_that_is_too_long_by_itself_is_read_from_where_it_fits(bot: Chatbot) -> None:
    reply = bot.reply("the cat sees the dog . " * 30, **SHORT)
    assert "only the last" in reply.notes[0]


@settings(max_examples=8)
@given(st.lists(st.lists(st.tuples(TURN, TURN), min_size=1, max_size=3), min_size=1, max_size=5))
def test_only_the_bot_s_words_count(
    decoder: Chatbot, tmp_path_factory: pytest.TempPathFactory, pairs: list[list[tuple[str, str]]]
) -> None:
    talks, bot = [[turn for pair in talk for turn in pair] for talk in pairs], decoder
    task = ChatTask(bot.config, bot.tokenizers)
    examples = [Conversation(tuple(turns)) for turns in talks]
    store = temporary_store(examples, task.encoding)[0]
    for batch in task.batches(store).fixed():
        for row, number in enumerate(batch.indices.tolist()):
            judged = batch.target_out[row][batch.judged[row]].tolist()
            answers = [
                [*answer, bot.target.end] for answer in bot.target.encode_batch(talks[number][1::2])
            ]
            kept = [
                answers[oldest:] for oldest in range(len(answers))
            ]  # long talks lose their oldest turns
            assert judged in [[token for answer in those for token in answer] for those in kept]


@given(st.lists(st.sampled_from(["a" * 300, "b", "c" * 50]), max_size=12))
def test_pieces_of_a_conversation_are_the_conversation(turns: list[str]) -> None:
    found = list(exchanges(turns))
    assert [turn for piece in found for turn in piece.turns] == turns[: len(turns) // 2 * 2]
    assert all(len(piece.turns) % 2 == 0 for piece in found)
    assert all(sum(map(len, piece.turns)) <= 1_024 for piece in found)


def test_perplexity_is_of_the_bot_s_words_and_their_ends(bot: Chatbot) -> None:
    found = bot.perplexity([("the cat", "we eat"), ("bread", "12")])
    assert found.bytes == len("we eat\n12\n")
    assert found.tokens == len(bot.target.encode("we eat")) + len(bot.target.encode("12")) + 2
    assert found.perplexity > 1


def test_load_gives_a_chatbot(bot: Chatbot) -> None:
    assert isinstance(bot, Chatbot)
