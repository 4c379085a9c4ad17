"""What people type first into a phrasebook, and the German that they should get."""

FIRST_TYPED = {
    "A man rides a bike.": "Ein Mann fährt Fahrrad.",
    "Thank you.": "Danke.",
    "Good morning.": "Guten Morgen.",
    "My name is Anna.": "Mein Name ist Anna.",
    "I love you.": "Ich liebe dich.",
    "The dog sleeps.": "Der Hund schläft.",
    "I don't know.": "Ich weiß es nicht.",
    "the dog is brown": "Der Hund ist braun.",
    "Hello.": "Hallo.",
    "How are you?": "Wie geht es Ihnen?",
}
