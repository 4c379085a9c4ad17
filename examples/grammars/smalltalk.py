"""Small talk from a small grammar: conversations to learn from that need no download.

A conversation walks through topics. What the user tells (a name, a town, a food, a hobby) comes back later: the bot
uses it, and is asked for it. Some combinations of words and phrases are held out of training, so that answers to them
cannot have been learned by heart.
"""

from collections.abc import Iterator
from itertools import islice
from random import Random
from zlib import crc32

from clearhead.data.examples import Conversation
from examples.grammars.templates import SLOT, drawn

ONE_IN = 10
"""One combination of a phrase and a word in so many is held out of training."""

WORDS = {
    "name": "Ada Adam Alice Amir Anna Ben Bob Carla Carlos Clara Dan David Diana Ella Emil Emma Eva Felix Finn Frank "
    "Grace Greta Hana Hugo Ida Igor Ines Iris Ivan Jack James Jana Jim Joan John Julia Karl Kate Kim Lara Lea "
    "Leo Lily Lisa Lucas Lucy Maria Mark Mary Max Maya Mia Mona Nadia Nick Nina Noah Nora Olga Oscar Paul Peter "
    "Petra Rita Robert Rosa Sam Sara Simon Sofia Susan Theo Tim Tom Tina Vera Victor Zoe",
    "town": "Athens Berlin Boston Cairo Chicago Delhi Dublin Lagos Lima Lisbon London Madrid Milan Oslo Paris Prague "
    "Rome Seoul Sydney Tokyo Toronto Venice Vienna Warsaw",
    "food": "apples bananas bread burgers cake cheese cherries chocolate cookies curry dumplings fish noodles olives "
    "oranges pancakes pasta pears pizza potatoes rice salad soup strawberries sushi tacos tomatoes",
    "hobby": "cooking cycling dancing drawing fishing gardening hiking knitting painting reading running sailing "
    "singing skating skiing surfing swimming travelling writing",
    "animal": "bears birds cats dogs dolphins elephants foxes frogs horses lions monkeys mice owls penguins rabbits "
    "sheep tigers turtles whales wolves",
    "weather": "sunny rainy cold hot windy snowy foggy",
    "good": "fine|good|great|very well|happy|all right",
    "bad": "tired|sad|ill|bored|not so good|a bit lonely",
}
ADVICE = {
    "sunny": "Then you should go outside.", "rainy": "Then take an umbrella with you.",
    "cold": "Then put on a warm coat.", "hot": "Then drink a lot of water.", "windy": "Then hold on to your hat.",
    "snowy": "Then you could build a snowman.", "foggy": "Then be careful on the road.",
    "tired": "You should get some sleep.", "sad": "I hope tomorrow will be better.",
    "ill": "I hope you get well soon.", "bored": "Shall I tell you a joke?",
    "not so good": "I hope tomorrow will be better.", "a bit lonely": "You can always talk to me.",
}  # fmt: skip
HELLO = "{Hi|Hello|Hey|Hi there|Hello there|Good morning|Good evening}"
HOW = "{how are you|how are you today|how are you doing|how do you do|how is it going|are you well}"
FINE = "I am fine{, thank you|, thanks|}. {How are you?|And you?|And how are you?}"
OFTEN = "{Every day|On weekends|Once a week|Not very often|In summer|When I have time}."
TOPICS: dict[str, tuple[tuple[str, str], ...]] = {
    "fine": (
        (f"{{{HOW}?|And {HOW}?}}", FINE),
        (
            "I am {<good>|<good>, {thanks|thank you}|<good> too}.",
            "{That is good to hear.|I am glad to hear that.}",
        ),
    ),
    "not fine": ((f"{HOW}?", FINE), ("I am <bad>{| today}.", "I am sorry to hear that. <advice>")),
    "good mood": (
        (
            "I am {<good>|<good>, {thanks|thank you}}.",
            "{That is good to hear.|I am glad to hear that.}",
        ),
    ),
    "and you": (
        (
            "I am <good>{,|.} {and you|and how are you|how are you}?",
            "I am fine{, thank you|, thanks|}.",
        ),
    ),
    "mood": (("I am <bad>{| today}.", "I am sorry to hear that. <advice>"),),
    "bot's name": (
        (
            "{What is your name|Who are you|What's your name|Do you have a name|What should I call you}?",
            "My name is Pip. {What is your name?|And what is yours?}",
        ),
        (
            "{I am <name>|My name is <name>|It is <name>|<name>|I'm <name>}.",
            "{Nice|Good} to meet you, <name>.",
        ),
    ),
    "name": (
        (
            "{I am <name>|My name is <name>|Call me <name>|I'm <name>}.",
            "{Nice|Good} to meet you, <name>.",
        ),
    ),
    "weather": (
        (
            "{It is <weather> {here|today|outside}|The weather is <weather> today|It's <weather> here}.",
            "<advice>",
        ),
    ),
    "no weather": (
        (
            "{How is the weather|What is the weather like|Is it raining|Is it cold outside|Is the sun shining}"
            "{| today| there}?",
            "I have no window, so I cannot see it. How is the weather where you are?",
        ),
        ("It is <weather>{| here| today}.", "<advice>"),
    ),
    "hobby": (
        (
            "{What do you like to do|What are your hobbies|Do you have a hobby|What do you do for fun}?",
            "I like to talk to people. What do you like to do?",
        ),
        (
            "{I like <hobby>|<hobby>|I love <hobby>|My hobby is <hobby>}.",
            "<Hobby> is fun. How often do you do it?",
        ),
        (OFTEN, "{That sounds nice.|I would like to try it one day.}"),
    ),
    "their hobby": (
        (
            "{I like <hobby>|I love <hobby>|My hobby is <hobby>}.",
            "<Hobby> is fun. How often do you do it?",
        ),
        (OFTEN, "{That sounds nice.|I would like to try it one day.}"),
    ),
    "do you hobby": (("Do you like <hobby>?", "I have never tried <hobby>, but it sounds fun."),),
    "food": (
        (
            "{I am hungry|I'm hungry|I want to eat something|I need some food}.",
            "Then you should eat something. What do you like to eat?",
        ),
        (
            "{I like <food>|<food>|I love <food>|Maybe some <food>|I would like some <food>}.",
            "{<Food>: a good choice.|Enjoy your <food>!}",
        ),
    ),
    "do you food": (
        (
            "Do you {like|eat|want} <food>?",
            "I cannot eat, but I have heard that people like <food>.",
        ),
    ),
    "favourite": (
        ("What is your favourite {food|meal|dish}?", "I cannot eat. What do you like to eat?"),
        (
            "{I like <food>|<food>|I love <food>|My favourite food is <food>}.",
            "{<Food>: a good choice.|I have heard that many people like <food>.}",
        ),
    ),
    "animals": (
        (
            "{Do you like <animal>|What do you think of <animal>}?",
            "{Yes, I like <animal> very much.|I think <animal> are wonderful.}",
        ),
    ),
    "their animals": (
        (
            "{I like <animal>|I love <animal>|My favourite animals are <animal>}.",
            "{I like <animal>, too.|I think <animal> are wonderful.}",
        ),
    ),
    "town": (
        (
            "{I am from <town>|I live in <town>|I'm from <town>|I come from <town>}.",
            "I have never been to <town>. What is it like?",
        ),
        (
            "It is {big|beautiful|very old|a bit loud|quiet|full of people}.",
            "I would like to see <town> one day.",
        ),
    ),
    "bot's town": (
        (
            "{Where are you from|Where do you live|Where are you|Where do you come from}?",
            "I live in this computer. Where {are you from|do you live}?",
        ),
        (
            "{I am from <town>|I live in <town>|<town>|In <town>|From <town>}.",
            "I have never been to <town>. I would like to see it.",
        ),
    ),
    "age": (
        (
            "{How old are you|What is your age|When were you born}?",
            "I am very young: I was trained just now.",
        ),
    ),
    "what": (
        (
            "{Are you a robot|Are you human|Are you a computer|What are you|Are you real|Are you a person}?",
            "I am a small Transformer. I have learned to make small talk.",
        ),
    ),
    "joke": (
        (
            "{Tell me a joke|Do you know a joke|Make me laugh|Tell me something funny}.",
            "{Why did the computer sneeze? It had a virus.|What do you call a fish without eyes? A fsh.|"
            "Why was the maths book sad? It had too many problems.}",
        ),
    ),
    "can": (
        (
            "{What can you do|What can we talk about|What do you know|Help}?",
            "We can talk about you, the weather, food, animals and hobbies.",
        ),
    ),
    "unknown": (
        (
            "{What is the capital of <town>|Who wrote the book about <animal>|How much is two plus two|"
            "How many <animal> are there|Why is the sky blue|Who won the game|What time is it|"
            "How do I cook <food>|What is a <weather> number|When does the train to <town> leave|"
            "Can you write a program}?",
            "I am sorry, I do not know that. I only make small talk.",
        ),
    ),
    "thanks": (
        (
            "{Thanks|Thank you|Thank you very much|Thanks a lot|That is nice of you|You are nice}.",
            "{You are welcome.|My pleasure.}",
        ),
    ),
}
ASKING = {
    "name": (
        "{What is my name|Do you remember my name|Who am I|Do you know my name}?",
        "Your name is <name>.",
    ),
    "town": (
        "{Where am I from|Where do I live|Do you remember where I live}?",
        "You are from <town>.",
    ),
    "food": (
        "{What do I like to eat|Do you remember what I like to eat|What is my favourite food}?",
        "You like <food>.",
    ),
    "hobby": (
        "{What is my hobby|What do I like to do|Do you remember my hobby}?",
        "You like <hobby>.",
    ),
}
TELLING = {
    "name": ("name", "bot's name"), "town": ("town", "bot's town"), "food": ("food", "favourite"),
    "hobby": ("hobby", "their hobby"),
}  # fmt: skip
GOODBYE = "{Bye|Goodbye|Bye bye|See you|See you later|I have to go|Good night|See you tomorrow}."


def smalltalk(seed: int = 0, held_out: bool = False) -> Iterator[Conversation]:
    """Conversations without end, the same for the same seed: those with no combination held out, or those with one."""
    random = Random(seed)  # noqa: S311
    while True:
        talk = Talk(random)
        talk.run()
        if talk.is_held_out == held_out:
            yield Conversation(tuple(talk.turns))


def conversations(n: int, seed: int = 0, held_out: bool = False) -> list[Conversation]:
    return list(islice(smalltalk(seed, held_out), n))


class Talk:
    """A conversation that is being made up."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.turns: list[str] = []
        self.slots = {kind: random.choice(split(words)) for kind, words in WORDS.items()}
        self.known: list[str] = []
        self.is_held_out = False

    def run(self) -> None:
        """A greeting, some topics, questions about what was told, and a goodbye; any of them may be missing."""
        random = self.random
        if random.random() < 0.6:
            self.greet()
        for topic in random.sample(sorted(TOPICS), random.randint(1, 3)):
            for said, answer in TOPICS[topic]:
                self.exchange(said, answer)
            self.known += [
                kind
                for kind, topics in TELLING.items()
                if topic in topics and kind not in self.known
            ]
        for kind in random.sample(sorted(ASKING), len(ASKING)):
            if kind in self.known and random.random() < 0.7:
                self.exchange(*ASKING[kind])
            elif kind not in self.known and random.random() < 0.1:
                self.exchange(ASKING[kind][0], "You have not told me yet.")
        if random.random() < 0.4:
            end = ", <name>" if "name" in self.known else ""
            self.exchange(GOODBYE, f"Goodbye{end}! {{It was nice to talk to you.|See you soon.}}")

    def greet(self) -> None:
        kind = self.random.random()
        if kind < 0.45:
            self.exchange(
                HELLO + "{.|!|}", "{Hello!|Hi!} {How are you?|Nice to meet you.|What is your name?}"
            )
        elif kind < 0.8:
            self.exchange(f"{HELLO}{{,|}} {HOW}?", FINE)
        else:
            self.exchange(
                f"{HELLO}, {{I am <name>|my name is <name>}}.",
                "Hello <name>! {Nice|Good} to meet you.",
            )
            self.known.append("name")

    def exchange(self, said: str, answer: str) -> None:
        for kind in SLOT.findall(said):
            if kind in WORDS:
                self.is_held_out |= crc32(f"{said} {self.slots[kind]}".encode()) % ONE_IN == 0
        mood = self.slots["weather"] if "<weather>" in said else self.slots["bad"]
        slots = self.slots | {"advice": ADVICE[mood]}
        slots |= {kind.capitalize(): slots[kind].capitalize() for kind in ("hobby", "food")}
        self.turns += [
            typed(drawn(said, slots, self.random), self.random),
            drawn(answer, slots, self.random),
        ]


def split(words: str) -> list[str]:
    return words.split("|") if "|" in words else words.split()


def typed(text: str, random: Random) -> str:
    """The text as people type it: some leave out marks, some capitals."""
    if random.random() < 0.5:
        text = text.rstrip(".?!")
    if random.random() < 0.4:
        text = text.replace(",", "")
    kind = random.random()
    if kind < 0.3:
        return text.lower()
    return text[0].upper() + text[1:] if kind < 0.9 else text
