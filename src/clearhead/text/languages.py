"""Languages by their codes (ISO 639), and what the names of files and columns tell of them."""

import re
from collections.abc import Sequence

NAMES = (
    "af Afrikaans, am Amharic, ar Arabic, az Azerbaijani, be Belarusian, bg Bulgarian, bn Bengali, "
    "br Breton, bs Bosnian, ca Catalan, cs Czech, cy Welsh, da Danish, de German, el Greek, "
    "en English, eo Esperanto, es Spanish, et Estonian, eu Basque, fa Persian, fi Finnish, "
    "fr French, ga Irish, gl Galician, gu Gujarati, ha Hausa, he Hebrew, hi Hindi, hr Croatian, "
    "hu Hungarian, hy Armenian, id Indonesian, ig Igbo, is Icelandic, it Italian, ja Japanese, "
    "ka Georgian, kk Kazakh, km Khmer, kn Kannada, ko Korean, ky Kyrgyz, la Latin, lb Luxembourgish, "
    "lo Lao, lt Lithuanian, lv Latvian, mg Malagasy, mk Macedonian, ml Malayalam, mn Mongolian, "
    "mr Marathi, ms Malay, mt Maltese, my Burmese, nb Norwegian Bokmål, ne Nepali, nl Dutch, "
    "nn Norwegian Nynorsk, no Norwegian, or Odia, pa Punjabi, pl Polish, ps Pashto, pt Portuguese, "
    "ro Romanian, ru Russian, sd Sindhi, si Sinhala, sk Slovak, sl Slovenian, so Somali, sq Albanian, "
    "sr Serbian, sv Swedish, sw Swahili, ta Tamil, te Telugu, tg Tajik, th Thai, tl Tagalog, "
    "tr Turkish, uk Ukrainian, ur Urdu, uz Uzbek, vi Vietnamese, xh Xhosa, yi Yiddish, yo Yoruba, "
    "zh Chinese, zu Zulu"
)
LANGUAGES = {each[:2]: each[3:] for each in NAMES.split(", ")}
"""The English name of each."""
IN_HEADERS = """
arabic bulgarian catalan chinese croatian czech danish dutch english esperanto estonian finnish
french german greek hebrew hindi hungarian indonesian irish italian japanese korean latin latvian
lithuanian norwegian persian polish portuguese romanian russian serbian slovak slovenian spanish
swedish thai turkish ukrainian vietnamese welsh
deutsch englisch français anglais español inglés italiano português nederlands svenska
ar bg ca cs da de el en eo es et fa fi fr ga he hi hr hu it ja ko la lt lv nl no pl pt ro ru sk
sl sr sv th tr uk vi zh eng deu ger fra fre spa ita por nld rus jpn zho
"""
COLUMN_NAMES = set(IN_HEADERS.split())
"""What the columns of a table of translations may be called."""
PACKED = re.compile(r"\.(gz|bz2|xz|zst|txt|tsv|csv|jsonl)$")
PAIR = re.compile(r"(?<![^\W_])([a-z]{2})(?:-|_|2|-to-)([a-z]{2})(?![^\W_])")


def languages_in(files: Sequence[str]) -> tuple[str, str]:
    """The source's and the target's code, as in train.en and train.de, or en-de; else empty."""
    names = [name.replace("\\", "/").rpartition("/")[2] for name in files]
    while names != (plain := [PACKED.sub("", name) for name in names]):
        names = plain
    ends = list(dict.fromkeys(name.rpartition(".")[2] for name in names))
    pairs = [ends, *(pair for name in names for pair in PAIR.findall(name.lower()))]
    known = (pair for pair in pairs if len(pair) == 2 and set(pair) <= set(LANGUAGES))
    source, target = next(known, ("", ""))
    return source, target
