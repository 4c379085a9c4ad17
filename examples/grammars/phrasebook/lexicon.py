"""The words of the phrasebook: how each bends, and what it goes together with.

Classes keep the sentences sensible: who is visited, what is eaten, where one goes. A new word is a new entry.
"""

import re
from typing import NamedTuple

NOUNS = """
food     | apple m Apfel Äpfel, soup f Suppe Suppen, egg n Ei Eier, salad m Salat Salate, pear f Birne Birnen
food     | sausage f Wurst Würste, banana f Banane Bananen, orange f Orange Orangen, omelette n Omelett Omeletts
baked    | cake m Kuchen Kuchen, pizza f Pizza Pizzas, bread_roll n Brötchen Brötchen, biscuit m Keks Kekse
hot      | coffee m Kaffee Kaffees, tea m Tee Tees, cocoa m Kakao Kakaos
cool     | beer n Bier Biere, juice m Saft Säfte, lemonade f Limonade Limonaden, wine m Wein Weine
written  | book n Buch Bücher, letter m Brief Briefe, recipe n Rezept Rezepte, postcard f Postkarte Postkarten
printed  | newspaper f Zeitung Zeitungen, magazine f Zeitschrift Zeitschriften, map f Karte Karten
ticket   | ticket f Fahrkarte Fahrkarten
clothes  | coat m Mantel Mäntel, jacket f Jacke Jacken, shirt n Hemd Hemden, hat m Hut Hüte
clothes  | scarf m Schal Schals, sweater m Pullover Pullover, cap f Mütze Mützen, dress n Kleid Kleider
machine  | car n Auto Autos, bicycle n Fahrrad Fahrräder, watch f Uhr Uhren, lamp f Lampe Lampen
machine  | camera f Kamera Kameras, phone n Telefon Telefone
carried  | bag f Tasche Taschen, suitcase m Koffer Koffer, key m Schlüssel Schlüssel, picture n Bild Bilder
carried  | umbrella m Regenschirm Regenschirme, gift n Geschenk Geschenke
table    | table m Tisch Tische, chair m Stuhl Stühle, bed n Bett Betten, sofa n Sofa Sofas
opening  | window n Fenster Fenster, door f Tür Türen
person   | man m Mann Männer, woman f Frau Frauen, teacher m Lehrer Lehrer, doctor m Arzt Ärzte, guest m Gast Gäste
youth    | child n Kind Kinder, girl n Mädchen Mädchen
kin      | sister f Schwester Schwestern, brother m Bruder Brüder, friend m Freund Freunde, son m Sohn Söhne
kin      | daughter f Tochter Töchter, aunt f Tante Tanten, uncle m Onkel Onkel, grandmother f Großmutter Großmütter
animal   | dog m Hund Hunde, cat f Katze Katzen, horse n Pferd Pferde, bird m Vogel Vögel, cow f Kuh Kühe
vehicle  | train m Zug Züge, bus m Bus Busse, ship n Schiff Schiffe, ferry f Fähre Fähren
sight    | museum n Museum Museen, church f Kirche Kirchen, theatre n Theater Theater
building | restaurant n Restaurant Restaurants, hotel n Hotel Hotels, library f Bibliothek Bibliotheken
building | school f Schule Schulen, cinema n Kino Kinos, pharmacy f Apotheke Apotheken, bakery f Bäckerei Bäckereien
building | supermarket m Supermarkt Supermärkte, hospital n Krankenhaus Krankenhäuser, café n Café Cafés
outdoors | park m Park Parks, forest m Wald Wälder, city f Stadt Städte
home     | kitchen f Küche Küchen, garden m Garten Gärten
stop     | station m Bahnhof Bahnhöfe, airport m Flughafen Flughäfen, bus_stop f Bushaltestelle Bushaltestellen
"""
VERBS = """
buy bought         | kaufen kauft hat gekauft             | acc | phtmi  | edible goods table
sell sold          | verkaufen verkauft hat verkauft      | acc | ptmi   | clothes machine carried table
see saw            | sehen sieht hat gesehen              | acc | stml   | people animal
eat ate            | essen isst hat gegessen              | acc | phtmlw | edible
order ordered      | bestellen bestellt hat bestellt      | acc | ptmi   | edible drinks
drink drank        | trinken trinkt hat getrunken         | acc | phtmlw | drinks
read read          | lesen liest hat gelesen              | acc | phtmil | written printed
write wrote        | schreiben schreibt hat geschrieben   | acc | ptmi   | written
look looked for    | suchen sucht hat gesucht             | acc | ptmil  | people goods animal
find found         | finden findet hat gefunden           | acc | tml    | goods animal
need needed        | brauchen braucht hat gebraucht       | acc | st     | goods table
have had           | haben hat hat gehabt                 | acc | s      | goods animal
take took          | nehmen nimmt hat genommen            | acc | phtmi  | vehicle
bring brought      | mit·bringen bringt hat mitgebracht   | acc | ptmi   | edible carried ticket written printed
call called        | an·rufen ruft hat angerufen          | acc | phtmic | people
visit visited      | besuchen besucht hat besucht         | acc | phtmi  | people sight
meet met           | treffen trifft hat getroffen         | acc | phtmlc | people
know knew          | kennen kennt hat gekannt             | acc | s      | people
pick picked up     | ab·holen holt hat abgeholt           | acc | phtmic | people
invite invited     | ein·laden lädt hat eingeladen        | acc | ptmi   | people
understand understood | verstehen versteht hat verstanden | acc | stm    | people
help helped        | helfen hilft hat geholfen            | dat | phtmil | people
thank thanked      | danken dankt hat gedankt             | dat | tmi    | people
wait waited for    | warten wartet hat gewartet           | auf | phtmil | people vehicle
open opened        | öffnen öffnet hat geöffnet           | acc | phtmi  | opening
close closed       | schließen schließt hat geschlossen   | acc | phtmi  | opening
wear wore          | tragen trägt hat getragen            | acc | phtm   | clothes
try tried on       | an·probieren probiert hat anprobiert | acc | ptmi   | clothes
wash washed        | waschen wäscht hat gewaschen         | acc | phtmi  | clothes
repair repaired    | reparieren repariert hat repariert   | acc | ptmi   | machine table
feed fed           | füttern füttert hat gefüttert        | acc | phtmil | animal
bake baked         | backen backt hat gebacken            | acc | phtmi  | baked
forget forgot      | vergessen vergisst hat vergessen     | acc | tl     | carried ticket clothes written printed
work worked        | arbeiten arbeitet hat gearbeitet     | -   | phtmlw | -
wait waited        | warten wartet hat gewartet           | -   | ptmil  | -
sing sang          | singen singt hat gesungen            | -   | phtmlw | -
cook cooked        | kochen kocht hat gekocht             | -   | phtmw  | -
sleep slept        | schlafen schläft hat geschlafen      | -   | ptm    | -
get got up         | auf·stehen steht ist aufgestanden    | -   | htmc   | -
go went            | gehen geht ist gegangen              | to  | phtmiw | place home
drive drove        | fahren fährt ist gefahren            | to  | phtmiw | place
come came          | kommen kommt ist gekommen            | to  | phtmi  | place home
give gave          | geben gibt hat gegeben               | two | ptmi   | edible carried written printed ticket
show showed        | zeigen zeigt hat gezeigt             | two | ptmi   | written printed carried ticket clothes
send sent          | schicken schickt hat geschickt       | two | ptmi   | written carried ticket
leave left         | ab·fahren fährt ist abgefahren       | run | stc    | -
arrive arrived     | an·kommen kommt ist angekommen       | run | stc    | -
put put            | legen legt hat gelegt                | on  | tmi    | written printed ticket clothes
"""
ADJECTIVES = """
new         | neu         | clothes machine carried written printed ticket table sight building home
old         | alt         | goods table person animal sight building outdoors vehicle
large       | groß        | animal machine carried food baked sight building outdoors home table vehicle opening
small       | klein       | animal machine carried food baked sight building outdoors home table vehicle opening
red         | rot         | clothes machine carried table
green       | grün        | clothes machine carried table
black       | schwarz     | clothes machine carried table animal
white       | weiß        | clothes machine carried table animal
brown       | braun       | clothes table animal
expensive   | teuer       | clothes machine carried ticket table
cheap       | billig      | clothes machine carried ticket table
beautiful   | schön       | clothes carried animal sight outdoors home
warm        | warm        | clothes
good        | gut         | edible drinks written
fresh       | frisch      | edible
cold        | kalt        | drinks
hot         | heiß        | hot
interesting | interessant | written printed sight
nice        | nett        | people animal
young       | jung        | people animal
sick        | krank       | people animal
tired       | müde        | people animal
famous      | berühmt     | person sight
quiet       | ruhig       | outdoors building
modern      | modern      | building table machine
"""
GROUPS = {
    "edible": "food baked", "drinks": "hot cool", "people": "person youth kin",
    "goods": "clothes machine carried ticket written printed", "place": "sight building outdoors stop",
}  # fmt: skip
PRONOUNS = {  # English subject and object; German nominative, accusative and dative
    "I": "I me ich mich mir", "he": "he him er ihn ihm", "she": "she her sie sie ihr", "we": "we us wir uns uns",
    "you": "you you Sie Sie Ihnen", "they": "they them sie sie ihnen",
}  # fmt: skip
POSSESSIVES = {
    "my": "mein",
    "your": "Ihr",
    "his": "sein",
    "her": "ihr",
    "our": "unser",
    "their": "ihr",
}
NUMBERS = {
    "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs", "seven": "sieben", "eight": "acht",
    "nine": "neun", "ten": "zehn", "eleven": "elf", "twelve": "zwölf",
}  # fmt: skip
DAYS = {
    "Monday": "Montag", "Tuesday": "Dienstag", "Wednesday": "Mittwoch", "Thursday": "Donnerstag", "Friday": "Freitag",
    "Saturday": "Samstag", "Sunday": "Sonntag",
}  # fmt: skip
SOON = {"today": "heute", "now": "jetzt", "tomorrow": "morgen", "this evening": "heute Abend"}
ONCE = {"yesterday": "gestern", "this morning": "heute Morgen", "last week": "letzte Woche",
        "yesterday evening": "gestern Abend"}  # fmt: skip
ALWAYS = {"every day": "jeden Tag", "every morning": "jeden Morgen", "every evening": "jeden Abend",
          "every week": "jede Woche"}  # fmt: skip
ON_DAYS = {f"on {english}": f"am {german}" for english, german in DAYS.items()}
TIMES = {
    "p": SOON | ON_DAYS,
    "t": ONCE | ON_DAYS,
    "m": SOON | ON_DAYS,
    "h": ALWAYS,
    "i": SOON,
    "s": {},
}
CLOCK = {f"at {english} o'clock": f"um {german} Uhr" for english, german in NUMBERS.items()}
MODALS = {  # English auxiliary and what follows it; German singular and plural
    "can": ("can", "", "kann", "können"), "should": ("should", "", "sollte", "sollten"),
    "would": ("would", "like to ", "möchte", "möchten"), "must": ("do", "have to ", "muss", "müssen"),
    "want": ("do", "want to ", "will", "wollen"),
}  # fmt: skip
WHERE = {"on": "auf", "under": "unter", "next to": "neben", "behind": "hinter"}

ENDINGS = {  # by case, then masculine, feminine, neuter, plural; `-` is no ending
    "none": ("- - - -", "- - - -", "- - - -"), "article": ("er ie as ie", "en ie as ie", "em er em en"),
    "ein": ("- e - e", "en e - e", "em er em en"),
    "weak": ("e e e en", "en e e en", "en en en en"), "mixed": ("er e es en", "en e es en", "en en en en"),
    "strong": ("er e es e", "en e es e", "em er em en"),
}  # fmt: skip


class Noun(NamedTuple):
    """A thing or a person; genders are m, f and n."""

    kind: str
    english: str
    gender: str
    german: str
    german_plural: str

    @property
    def english_plural(self) -> str:
        irregular = {"man": "men", "woman": "women", "child": "children", "scarf": "scarves"}
        if re.search("[^aeiou]y$", self.english):
            return self.english[:-1] + "ies"
        return irregular.get(
            self.english, self.english + ("es" if re.search("(s|ch)$", self.english) else "s")
        )


class Verb(NamedTuple):
    """A verb; `prefix` is the part that German sends to the end: `Ich rufe dich an`."""

    english: str
    past: str
    particle: str
    prefix: str
    infinitive: str
    third: str
    auxiliary: str
    participle: str
    case: str
    """The case of its object, or what it has instead: somewhere `to` go, `two` objects, what things are put `on`, …"""
    uses: str
    """(p)rogressive, (h)abit, (s)imple present, pas(t), (m)odal, (i)mperative, (l)ocation, (w)ith somebody, (c)lock."""
    kinds: frozenset[str]


class Adjective(NamedTuple):
    """An adjective and the classes of nouns that can be so."""

    english: str
    german: str
    kinds: frozenset[str]


def rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


def kinds(names: str) -> frozenset[str]:
    """Classes of nouns, groups of them resolved."""
    return frozenset(kind for name in names.split() for kind in GROUPS.get(name, name).split())


def noun(kind: str, entry: str) -> Noun:
    english, *german = entry.split()
    return Noun(kind, english.replace("_", " "), *german)


def verb(english: str, german: str, case: str, uses: str, objects: str) -> Verb:
    base, past, particle, *_ = [*english.split(), ""]
    infinitive, *forms = german.split()
    prefix, _, infinitive = infinitive.rpartition("·")
    third, auxiliary, participle = forms
    return Verb(
        base,
        past,
        particle,
        prefix,
        infinitive,
        third,
        auxiliary,
        participle,
        case,
        uses,
        kinds(objects),
    )


ALL_NOUNS = [noun(kind, entry) for kind, entries in rows(NOUNS) for entry in entries.split(", ")]
ALL_VERBS = [verb(*row) for row in rows(VERBS)]
ALL_ADJECTIVES = [
    Adjective(english, german, kinds(uses)) for english, german, uses in rows(ADJECTIVES)
]
