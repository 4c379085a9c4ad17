"""What people say first: greetings, thanks, names, needs; and the commonest words.

Each line is a way of saying it in English, or several (`;`), and its one German. `<name>` and the like are filled in.
"""

FIRST_SAID = """
Hello; Hi; Hey; Hello there; Hi there = Hallo.
Good morning; Morning = Guten Morgen.
Good evening = Guten Abend.
Good night = Gute Nacht.
Goodbye; Good bye = Auf Wiedersehen.
Bye; Bye bye = Tschüss.
Thank you; Thanks = Danke.
Thank you very much; Thanks a lot; Many thanks = Vielen Dank.
Hello, my name is <name> = Hallo, mein Name ist <name>.
How are you?; How are you doing?; How do you do? = Wie geht es Ihnen?
I am fine = Mir geht es gut.
My name is <name> = Mein Name ist <name>.
I am <name> = Ich bin <name>.
What is your name?; What's your name? = Wie heißen Sie?
I love you = Ich liebe dich.
I do not know = Ich weiß es nicht.
I do not understand = Ich verstehe nicht.
I am hungry = Ich habe Hunger.
I am thirsty = Ich habe Durst.
Nice to meet you; Pleased to meet you = Freut mich.
Excuse me = Entschuldigung.
I am sorry = Es tut mir leid.
Please = Bitte.
Yes = Ja.
No = Nein.
Happy birthday = Alles Gute zum Geburtstag.
Hello world = Hallo Welt.
I am from Germany = Ich komme aus Deutschland.
A man rides a bike = Ein Mann fährt Fahrrad.
The dog sleeps = Der Hund schläft.
The dog is brown = Der Hund ist braun.
"""

PHRASES = """
Good afternoon; Good day = Guten Tag.
Welcome = Willkommen.
See you; See you soon = Bis bald.
See you later = Bis später.
See you tomorrow = Bis morgen.
Sleep well = Schlafen Sie gut.
Sweet dreams = Süße Träume.
Good luck = Viel Glück.
Have fun = Viel Spaß.
Have a nice day; Have a good day = Einen schönen Tag noch.
Have a nice weekend; Have a good weekend = Ein schönes Wochenende.
Have a good trip = Gute Reise.
Merry Christmas = Frohe Weihnachten.
Happy New Year = Frohes neues Jahr.
Congratulations = Herzlichen Glückwunsch.
Get well soon = Gute Besserung.
Enjoy your meal = Guten Appetit.
Cheers = Prost.
All the best = Alles Gute.
You are welcome; My pleasure = Gern geschehen.
No problem = Kein Problem.
Of course; Sure = Natürlich.
Maybe; Perhaps = Vielleicht.
Really? = Wirklich?
Okay; OK; All right = In Ordnung.
Sorry = Entschuldigung.
No, thank you; No thanks = Nein, danke.
Yes, please = Ja, bitte.
That is right; That is correct = Das ist richtig.
That is wrong = Das ist falsch.
That is true = Das stimmt.
That is good = Das ist gut.
It is good = Es ist gut.
That is great = Das ist toll.
That is beautiful = Das ist schön.
That is nice of you = Das ist nett von Ihnen.
That is too expensive = Das ist zu teuer.
That is enough = Das ist genug.
That is all = Das ist alles.
That is not possible = Das ist nicht möglich.
It does not matter; Never mind = Das macht nichts.
Very good = Sehr gut.
Not bad = Nicht schlecht.
Great = Toll.
Wonderful = Wunderbar.
Exactly = Genau.
Finally = Endlich.
Attention; Careful = Vorsicht.
Stop = Halt.
Help = Hilfe.
I am well; I am very well; I am doing well = Mir geht es gut.
I am not well; I do not feel well = Mir geht es nicht gut.
How is it going?; How goes it? = Wie geht's?
And you? = Und Ihnen?
How was your day? = Wie war Ihr Tag?
What is new? = Was gibt es Neues?
How old are you? = Wie alt sind Sie?
I am <number> years old = Ich bin <zahl> Jahre alt.
My son is <number> years old = Mein Sohn ist <zahl> Jahre alt.
Where are you from?; Where do you come from? = Woher kommen Sie?
I am from <town>; I come from <town> = Ich komme aus <town>.
I live in <town> = Ich wohne in <town>.
He lives in <town> = Er wohnt in <town>.
She lives in <town> = Sie wohnt in <town>.
We live in <town> = Wir wohnen in <town>.
<name> lives in <town> = <name> wohnt in <town>.
We are in <town> = Wir sind in <town>.
I am going to <town> = Ich fahre nach <town>.
The train goes to <town> = Der Zug fährt nach <town>.
Where do you live? = Wo wohnen Sie?
Who are you? = Wer sind Sie?
Who is that?; Who is this? = Wer ist das?
What is that?; What is this? = Was ist das?
What is the matter?; What is wrong? = Was ist los?
What are you doing? = Was machen Sie?
What do you do for a living?; What is your job? = Was sind Sie von Beruf?
What happened? = Was ist passiert?
What does that mean?; What does this mean? = Was bedeutet das?
What time is it?; What is the time? = Wie spät ist es?
It is <number> o'clock = Es ist <zahl> Uhr.
What day is it today? = Welcher Tag ist heute?
Today is <day> = Heute ist <tag>.
How much is it?; How much is that?; How much does it cost?; How much is this? = Wie viel kostet das?
How far is it? = Wie weit ist es?
How long does it take? = Wie lange dauert es?
How do you say that in German? = Wie sagt man das auf Deutsch?
How is the weather? = Wie ist das Wetter?
Where is the toilet?; Where is the bathroom?; Where is the restroom? = Wo ist die Toilette?
Where is <name>? = Wo ist <name>?
Where are we? = Wo sind wir?
Where are you? = Wo sind Sie?
Where am I? = Wo bin ich?
Where are you going? = Wohin gehen Sie?
Where is the exit? = Wo ist der Ausgang?
Where is the station? = Wo ist der Bahnhof?
Where is the airport? = Wo ist der Flughafen?
Where is the hotel? = Wo ist das Hotel?
Where is the restaurant? = Wo ist das Restaurant?
Where is the hospital? = Wo ist das Krankenhaus?
Where is the museum? = Wo ist das Museum?
Where is the pharmacy? = Wo ist die Apotheke?
Where is the school? = Wo ist die Schule?
Where is my <kin>? = Wo ist <meine>?
When are you coming? = Wann kommen Sie?
Why? = Warum?
Why not? = Warum nicht?
When? = Wann?
Where? = Wo?
Who? = Wer?
What? = Was?
How? = Wie?
How much? = Wie viel?
How many? = Wie viele?
Do you speak <language>? = Sprechen Sie <sprache>?
I speak <language> = Ich spreche <sprache>.
I do not speak <language> = Ich spreche kein <sprache>.
I speak a little <language> = Ich spreche ein wenig <sprache>.
I am learning <language>; I learn <language> = Ich lerne <sprache>.
She speaks <language> = Sie spricht <sprache>.
He speaks <language> = Er spricht <sprache>.
Do you understand?; Do you understand me? = Verstehen Sie mich?
I understand = Ich verstehe.
I do not understand you = Ich verstehe Sie nicht.
I know = Ich weiß.
I think so = Ich glaube schon.
I do not think so = Ich glaube nicht.
I hope so = Ich hoffe es.
I believe you = Ich glaube Ihnen.
I agree = Ich bin einverstanden.
I forgot = Ich habe es vergessen.
I see = Ich verstehe.
I am so sorry; I am very sorry = Es tut mir sehr leid.
I am very hungry = Ich habe großen Hunger.
I am very thirsty = Ich habe großen Durst.
Are you hungry? = Haben Sie Hunger?
Are you thirsty? = Haben Sie Durst?
He is hungry = Er hat Hunger.
She is hungry = Sie hat Hunger.
We are hungry = Wir haben Hunger.
They are hungry = Sie haben Hunger.
<name> is hungry = <name> hat Hunger.
The child is hungry = Das Kind hat Hunger.
The dog is hungry = Der Hund hat Hunger.
The cat sleeps = Die Katze schläft.
The cat drinks milk = Die Katze trinkt Milch.
The child plays = Das Kind spielt.
The bird sings = Der Vogel singt.
The cat is hungry = Die Katze hat Hunger.
I am not hungry = Ich habe keinen Hunger.
I am cold = Mir ist kalt.
I am hot; I am warm = Mir ist warm.
I am afraid = Ich habe Angst.
I am in a hurry = Ich habe es eilig.
I am late = Ich bin spät dran.
I am lost = Ich habe mich verlaufen.
I am here = Ich bin hier.
I am ready = Ich bin bereit.
I am alone = Ich bin allein.
I am at home = Ich bin zu Hause.
I am busy = Ich bin beschäftigt.
I am married = Ich bin verheiratet.
I am a student = Ich bin Student.
I am a teacher = Ich bin Lehrer.
I am a doctor = Ich bin Arzt.
I am a man = Ich bin ein Mann.
I am a woman = Ich bin eine Frau.
I am lucky = Ich habe Glück.
I am right = Ich habe recht.
You are right = Sie haben recht.
You are wrong = Sie haben unrecht.
You are beautiful = Sie sind schön.
I miss you = Ich vermisse dich.
I love you very much; I love you so much = Ich liebe dich sehr.
I love you too = Ich liebe dich auch.
I like you = Ich mag dich.
I hate you = Ich hasse dich.
Do you love me? = Liebst du mich?
I love <name> = Ich liebe <name>.
<name> loves <other> = <name> liebt <other>.
<name> loves me = <name> liebt mich.
I love my <kin> = Ich liebe <meinen>.
He loves her = Er liebt sie.
She loves him = Sie liebt ihn.
I love music = Ich liebe Musik.
I love my life = Ich liebe mein Leben.
I love books = Ich liebe Bücher.
I love chocolate = Ich liebe Schokolade.
I like it; I like that = Das gefällt mir.
I do not like it; I do not like that = Das gefällt mir nicht.
I like music = Ich mag Musik.
I like coffee = Ich mag Kaffee.
I like dogs = Ich mag Hunde.
I like cats = Ich mag Katzen.
She likes cats = Sie mag Katzen.
He likes dogs = Er mag Hunde.
We like tea = Wir mögen Tee.
Do you like music? = Mögen Sie Musik?
Do you like coffee? = Mögen Sie Kaffee?
This is <name>; That is <name> = Das ist <name>.
This is my <kin> = Das ist <meine>.
Her name is <name>; She is called <name> = Sie heißt <name>.
His name is <name>; He is called <name> = Er heißt <name>.
Is your name <name>? = Heißen Sie <name>?
<name> is tired = <name> ist müde.
<name> and <other> are friends = <name> und <other> sind Freunde.
<name> is here = <name> ist hier.
I know <name> = Ich kenne <name>.
Do you know <name>? = Kennen Sie <name>?
I need help = Ich brauche Hilfe.
I need a doctor = Ich brauche einen Arzt.
I need water = Ich brauche Wasser.
I need money = Ich brauche Geld.
I need you = Ich brauche dich.
I need time = Ich brauche Zeit.
Help me = Helfen Sie mir.
Please help me; Help me please = Bitte helfen Sie mir.
Can you help me?; Could you help me? = Können Sie mir helfen?
Can I help you?; May I help you? = Kann ich Ihnen helfen?
Call the police = Rufen Sie die Polizei.
Call a doctor = Rufen Sie einen Arzt.
Call me = Rufen Sie mich an.
Leave me alone = Lassen Sie mich in Ruhe.
Go away = Gehen Sie weg.
Come here = Kommen Sie her.
Come in = Kommen Sie herein.
Come with me = Kommen Sie mit mir.
Sit down = Setzen Sie sich.
Wait = Warten Sie.
Wait a moment; One moment; Just a moment = Einen Moment.
Let us go; Let's go = Gehen wir.
Be quiet = Seien Sie ruhig.
Be careful = Seien Sie vorsichtig.
Go home = Gehen Sie nach Hause.
I am going home; I go home = Ich gehe nach Hause.
I want to go home = Ich will nach Hause gehen.
I have to go; I must go = Ich muss gehen.
I am coming = Ich komme.
I work here = Ich arbeite hier.
I live here = Ich wohne hier.
I am tired = Ich bin müde.
I am ill; I feel sick = Ich bin krank.
I have a dog = Ich habe einen Hund.
I have a cat = Ich habe eine Katze.
I have a question = Ich habe eine Frage.
I have a problem = Ich habe ein Problem.
I have an idea = Ich habe eine Idee.
I have a headache = Ich habe Kopfschmerzen.
I have no money = Ich habe kein Geld.
I have no time = Ich habe keine Zeit.
I have no idea = Ich habe keine Ahnung.
I have <number> children = Ich habe <zahl> Kinder.
Do you have time? = Haben Sie Zeit?
Do you have children? = Haben Sie Kinder?
Do you have a dog? = Haben Sie einen Hund?
I want water = Ich will Wasser.
I want to sleep = Ich will schlafen.
I want to eat = Ich will essen.
I would like a coffee = Ich möchte einen Kaffee.
I would like to pay; The bill, please; Check please = Die Rechnung, bitte.
Water, please = Wasser, bitte.
A beer, please = Ein Bier, bitte.
A coffee, please = Einen Kaffee, bitte.
Can I pay by card? = Kann ich mit Karte zahlen?
I am just looking = Ich sehe mich nur um.
I do not eat meat = Ich esse kein Fleisch.
I drink coffee = Ich trinke Kaffee.
I drink water = Ich trinke Wasser.
I eat bread = Ich esse Brot.
I am eating = Ich esse.
I can swim = Ich kann schwimmen.
I cannot swim = Ich kann nicht schwimmen.
I cannot sleep = Ich kann nicht schlafen.
I cannot come = Ich kann nicht kommen.
I read a lot = Ich lese viel.
Can you repeat that? = Können Sie das wiederholen?
Please speak more slowly; Speak slowly please = Bitte sprechen Sie langsamer.
Can you hear me? = Können Sie mich hören?
It is cold = Es ist kalt.
It is hot = Es ist heiß.
It is warm = Es ist warm.
It is late = Es ist spät.
It is early = Es ist früh.
It is easy = Es ist leicht.
It is difficult = Es ist schwer.
It is important = Es ist wichtig.
It is possible = Es ist möglich.
It is beautiful = Es ist schön.
It is me = Ich bin es.
It is raining; It rains = Es regnet.
It is snowing; It snows = Es schneit.
The sun is shining; The sun shines = Die Sonne scheint.
The sky is blue = Der Himmel ist blau.
The weather is nice; The weather is good = Das Wetter ist schön.
The weather is nice today = Das Wetter ist heute schön.
The weather is bad = Das Wetter ist schlecht.
What a beautiful day = Was für ein schöner Tag!
Today is a beautiful day; It is a beautiful day = Heute ist ein schöner Tag.
The water is cold = Das Wasser ist kalt.
The house is big = Das Haus ist groß.
My house is small = Mein Haus ist klein.
The food is good = Das Essen ist gut.
The food was good = Das Essen war gut.
Life is beautiful = Das Leben ist schön.
Time is money = Zeit ist Geld.
Everything is fine; Everything is okay = Alles ist gut.
Is everything okay? = Ist alles in Ordnung?
Are you okay? = Geht es Ihnen gut?
Are you tired? = Sind Sie müde?
Are you sure? = Sind Sie sicher?
Are you ready? = Sind Sie bereit?
Are you there? = Sind Sie da?
Are you married? = Sind Sie verheiratet?
Is it far? = Ist es weit?
Is this free? = Ist das frei?
Is that true? = Ist das wahr?
What do you want? = Was wollen Sie?
What do you think? = Was denken Sie?
What do you like? = Was mögen Sie?
Who knows? = Wer weiß?
I am a Transformer = Ich bin ein Transformer.
This is a test = Das ist ein Test.
This is a book = Das ist ein Buch.
This is my house = Das ist mein Haus.
This is my dog = Das ist mein Hund.
This is my car = Das ist mein Auto.
There is no water = Es gibt kein Wasser.
Good idea = Gute Idee.
Nice weather = Schönes Wetter.
The world is small = Die Welt ist klein.
I want to learn <language> = Ich will <sprache> lernen.
"""

WORDS = """
house Haus, water Wasser, bread Brot, milk Milch, money Geld, time Zeit, day Tag, night Nacht, year Jahr, week Woche,
mother Mutter, father Vater, boy Junge, people Leute, world Welt, life Leben, love Liebe, friend Freund, name Name,
work Arbeit, food Essen, music Musik, sun Sonne, moon Mond, tree Baum, flower Blume, head Kopf, hand Hand, eye Auge,
heart Herz, word Wort, language Sprache, question Frage, answer Antwort, street Straße, country Land, room Zimmer,
today heute, tomorrow morgen, yesterday gestern, now jetzt, here hier, there dort, always immer, never nie, often oft,
sometimes manchmal, very sehr, more mehr, good gut, bad schlecht, big groß, small klein, happy glücklich, sad traurig,
blue blau, yellow gelb, new neu, old alt, one eins, two zwei, three drei, four vier, five fünf, and und, or oder,
but aber, with mit, without ohne, for für, English Englisch, German Deutsch, Germany Deutschland, bike Fahrrad
"""
NAMES = (
    "Anna Peter Maria John Mary Tom Paul Emma Max Lisa David Sarah Ben Julia Anna Peter Maria John Mary Tom Paul Emma "
    "Max Lisa David Sarah Ben Julia Alex Alice Anne Bob Carl Carla Charlie Chris Clara Daniel Diana Elena Ella Emil "
    "Emily Eva Felix Finn Frank George Hanna Hans Harry Ida Jack James Jan Jane Jim Joe Jonas Karl Kate Kim Lara Laura "
    "Lea Lena Leo Lily Linda Lucas Lucy Luke Marie Mark Martin Mia Michael Mike Nick Nina Noah Nora Oliver Oscar Petra "
    "Robert Rosa Sam Sandra Simon Sofia Sophie Stefan Susan Thomas Tim Tina Victor William Zoe"
)
"""The commonest stand twice."""
TOWNS = (
    "Berlin Hamburg London Paris Madrid Boston Chicago Dublin Lisbon:Lissabon Rome:Rom Vienna:Wien Munich:München "
    "Cologne:Köln Tokyo:Tokio Oslo Prague:Prag Warsaw:Warschau Athens:Athen Sydney Toronto Germany:Deutschland "
    "England Italy:Italien France:Frankreich Spain:Spanien India:Indien China Canada:Kanada America:Amerika"
)
LANGUAGES = "English:Englisch German:Deutsch French:Französisch Spanish:Spanisch Italian:Italienisch Chinese:Chinesisch"
KIN = (
    "mother:meine:Mutter father:mein:Vater sister:meine:Schwester brother:mein:Bruder wife:meine:Frau "
    "husband:mein:Mann son:mein:Sohn daughter:meine:Tochter friend:mein:Freund family:meine:Familie"
)
DOES = """
ride a bike; ride a bicycle | fahre fährt fahren  | Fahrrad  | p
play football; play soccer | spiele spielt spielen | Fußball  | p
play the piano      | spiele spielt spielen       | Klavier  | p
play tennis         | spiele spielt spielen       | Tennis   | p
play the guitar     | spiele spielt spielen       | Gitarre  | p
play                | spiele spielt spielen       |          | pna
sleep               | schlafe schläft schlafen    |          | pna
run                 | laufe läuft laufen          |          | pna
swim                | schwimme schwimmt schwimmen |          | pna
dance               | tanze tanzt tanzen          |          | pn
laugh               | lache lacht lachen          |          | pn
smile               | lächle lächelt lächeln      |          | pn
cry                 | weine weint weinen          |          | pn
sing                | singe singt singen          |          | pna
sit                 | sitze sitzt sitzen          |          | pa
eat                 | esse isst essen             |          | pna
drink               | trinke trinkt trinken       |          | pna
come                | komme kommt kommen          |          | pna
go                  | gehe geht gehen             |          | pna
work                | arbeite arbeitet arbeiten   |          | pn
cook                | koche kocht kochen          |          | pn
live here           | wohne wohnt wohnen          | hier     |
smoke               | rauche raucht rauchen       |          | pn
drink water         | trinke trinkt trinken       | Wasser   | pa
drink milk          | trinke trinkt trinken       | Milch    | pa
drink coffee        | trinke trinkt trinken       | Kaffee   | p
drink tea           | trinke trinkt trinken       | Tee      | p
eat bread           | esse isst essen             | Brot     | p
eat fish            | esse isst essen             | Fisch    | pa
eat meat            | esse isst essen             | Fleisch  | pa
speak German        | spreche spricht sprechen    | Deutsch  | p
speak English       | spreche spricht sprechen    | Englisch | p
learn German        | lerne lernt lernen          | Deutsch  | p
learn English       | lerne lernt lernen          | Englisch | p
listen to music     | höre hört hören             | Musik    | p
like music          | mag mag mögen               | Musik    |
like coffee         | mag mag mögen               | Kaffee   |
like dogs           | mag mag mögen               | Hunde    |
like cats           | mag mag mögen               | Katzen   |
like books          | mag mag mögen               | Bücher   |
love music          | liebe liebt lieben          | Musik    |
love dogs           | liebe liebt lieben          | Hunde    |
love cats           | liebe liebt lieben          | Katzen   |
need help           | brauche braucht brauchen    | Hilfe    |
need money          | brauche braucht brauchen    | Geld     |
need water          | brauche braucht brauchen    | Wasser   | a
have a dog          | habe hat haben              | einen Hund |
have a cat          | habe hat haben              | eine Katze |
have a car          | habe hat haben              | ein Auto |
have a house        | habe hat haben              | ein Haus |
have time           | habe hat haben              | Zeit     |
go home             | gehe geht gehen             | nach Hause | pa
"""
"""What somebody does; German for I, he and they. Some are (p)rogressive, some (n)egated, some are what (a)nimals do."""
IS = "happy glücklich, sad traurig, nice nett, good gut, strong stark, funny lustig, clever klug, rich reich"
LOOKS = (
    "tired müde, sick krank, old alt, young jung, small klein, big groß, beautiful schön, here hier"
)
COLOURS = "brown braun, black schwarz, white weiß"
ALIVE = """
a mother f Mutter Mütter, a father m Vater Väter, a boy m Junge Jungen, a baby n Baby Babys, a man m Mann Männer,
a woman f Frau Frauen, a girl n Mädchen Mädchen, a child n Kind Kinder, a teacher m Lehrer Lehrer,
a friend m Freund Freunde
"""
ANIMALS = "a dog m Hund Hunde, a cat f Katze Katzen, a bird m Vogel Vögel, a horse n Pferd Pferde, a cow f Kuh Kühe"
