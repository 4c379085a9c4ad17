"""An English-German phrasebook from a small grammar: text to learn from that needs no download.

A sentence is drawn once, as a meaning, and said twice. Its German has what makes translation more than a dictionary:
three genders and three cases that articles and adjectives agree with, verbs in second place with their other half at
the end, and `nicht` or `kein`. `you` is always the polite `Sie`, so that every English sentence has one translation.
"""

import re
from collections.abc import Iterator
from random import Random
from typing import Literal, NamedTuple
from zlib import crc32

from clearhead.data.examples import Pair

NOUNS = """
food     | apple m Apfel Äpfel, soup f Suppe Suppen, egg n Ei Eier, salad m Salat Salate, pear f Birne Birnen
food     | sausage f Wurst Würste, banana f Banane Bananen, orange f Orange Orangen, omelette n Omelett Omeletts
baked    | cake m Kuchen Kuchen, pizza f Pizza Pizzas, bread_roll n Brötchen Brötchen, cookie m Keks Kekse
hot      | coffee m Kaffee Kaffees, tea m Tee Tees, cocoa m Kakao Kakaos
cool     | beer n Bier Biere, juice m Saft Säfte, lemonade f Limonade Limonaden, wine m Wein Weine
written  | book n Buch Bücher, letter m Brief Briefe, recipe n Rezept Rezepte, postcard f Postkarte Postkarten
printed  | newspaper f Zeitung Zeitungen, magazine f Zeitschrift Zeitschriften, map f Karte Karten
ticket   | ticket f Fahrkarte Fahrkarten
clothes  | coat m Mantel Mäntel, jacket f Jacke Jacken, shirt n Hemd Hemden, dress n Kleid Kleider, hat m Hut Hüte
clothes  | skirt m Rock Röcke, sweater m Pullover Pullover, blouse f Bluse Blusen
machine  | car n Auto Autos, bicycle n Fahrrad Fahrräder, watch f Uhr Uhren, lamp f Lampe Lampen
machine  | camera f Kamera Kameras, phone n Telefon Telefone
carried  | bag f Tasche Taschen, suitcase m Koffer Koffer, key m Schlüssel Schlüssel, picture n Bild Bilder
carried  | umbrella m Regenschirm Regenschirme, gift n Geschenk Geschenke
table    | table m Tisch Tische, chair m Stuhl Stühle, bed n Bett Betten, sofa n Sofa Sofas
opening  | window n Fenster Fenster, door f Tür Türen
person   | man m Mann Männer, woman f Frau Frauen, child n Kind Kinder, teacher m Lehrer Lehrer, doctor m Arzt Ärzte
person   | girl n Mädchen Mädchen, guest m Gast Gäste
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
eat ate            | essen isst hat gegessen              | acc | phtml  | edible
order ordered      | bestellen bestellt hat bestellt      | acc | ptmi   | edible drinks
drink drank        | trinken trinkt hat getrunken         | acc | phtml  | drinks
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
work worked        | arbeiten arbeitet hat gearbeitet     | -   | phtml  | -
wait waited        | warten wartet hat gewartet           | -   | ptmil  | -
sing sang          | singen singt hat gesungen            | -   | phtml  | -
cook cooked        | kochen kocht hat gekocht             | -   | phtm   | -
sleep slept        | schlafen schläft hat geschlafen      | -   | ptm    | -
get got up         | auf·stehen steht ist aufgestanden    | -   | htmc   | -
go went            | gehen geht ist gegangen              | to  | phtmi  | place home
drive drove        | fahren fährt ist gefahren            | to  | phtmi  | place
come came          | kommen kommt ist gekommen            | to  | phtmi  | place home
give gave          | geben gibt hat gegeben               | two | ptmi   | edible carried written printed ticket
show showed        | zeigen zeigt hat gezeigt             | two | ptmi   | written printed carried ticket clothes
send sent          | schicken schickt hat geschickt       | two | ptmi   | written carried ticket
put put            | legen legt hat gelegt                | on  | tmi    | written printed ticket clothes
"""
ADJECTIVES = """
new neu              | clothes machine carried written printed ticket table sight building home
old alt              | goods table people animal sight building outdoors vehicle
large groß           | animal machine carried edible drinks sight building outdoors home table vehicle opening
small klein          | animal machine carried edible drinks sight building outdoors home table vehicle opening
red rot              | clothes machine carried table
green grün           | clothes machine carried table
black schwarz        | clothes machine carried table animal
white weiß           | clothes machine carried table animal
brown braun          | clothes table animal
expensive teuer      | clothes machine carried ticket written table
cheap billig         | clothes machine carried ticket written table
beautiful schön      | clothes carried animal sight outdoors home
warm warm            | clothes
good gut             | edible drinks written
fresh frisch         | edible
cold kalt            | drinks
hot heiß             | hot
interesting interessant | written printed sight
friendly freundlich  | people animal
young jung           | people animal
sick krank           | people animal
tired müde           | people animal
famous berühmt       | person sight
quiet ruhig          | outdoors building
modern modern        | building table machine
"""
GROUPS = {
    "edible": "food baked", "drinks": "hot cool", "people": "person kin",
    "goods": "clothes machine carried ticket written printed", "place": "sight building outdoors stop",
}  # fmt: skip
PRONOUNS = {  # English subject and object; German nominative, accusative and dative
    "I": "I me ich mich mir", "he": "he him er ihn ihm", "she": "she her sie sie ihr", "we": "we us wir uns uns",
    "you": "you you Sie Sie Ihnen", "they": "they them sie sie ihnen",
}  # fmt: skip
POSSESSIVES = {"my": "mein", "your": "Ihr", "his": "sein", "her": "ihr", "our": "unser", "their": "ihr"}
NUMBERS = dict(zip(
    "two three four five six seven eight nine ten eleven twelve".split(),
    "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split(), strict=True,
))  # fmt: skip
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
TIMES = {"p": SOON | ON_DAYS, "t": ONCE | ON_DAYS, "m": SOON | ON_DAYS, "h": ALWAYS, "i": SOON, "s": {}}
CLOCK = {f"at {english} o'clock": f"um {german} Uhr" for english, german in NUMBERS.items()}
MODALS = {  # English auxiliary and what follows it; German singular and plural
    "can": ("can", "", "kann", "können"), "should": ("should", "", "sollte", "sollten"),
    "would": ("would", "like to ", "möchte", "möchten"), "must": ("do", "have to ", "muss", "müssen"),
    "want": ("do", "want to ", "will", "wollen"),
}  # fmt: skip
WHERE = {"on": "auf", "under": "unter", "next to": "neben", "behind": "hinter"}

CASES = {"nom": 0, "acc": 1, "dat": 2}
ENDINGS = {  # by case, then masculine, feminine, neuter, plural; `-` is no ending
    "the": ("er e as e", "en e as e", "em er em en"), "this": ("er e es e", "en e es e", "em er em en"),
    "ein": ("- e - e", "en e - e", "em er em en"),
    "weak": ("e e e en", "en e e en", "en en en en"), "mixed": ("er e es en", "en e es en", "en en en en"),
    "strong": ("er e es e", "en e es e", "em er em en"),
}  # fmt: skip
