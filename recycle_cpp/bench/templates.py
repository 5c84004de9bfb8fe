"""What generated prompts are made of: words, and sentences with places for them."""

from __future__ import annotations

VALUES = {
    "name": "Ana|Joost|Mehmet|Priya|Tomasz|Ingrid|Kofi|Leila|Marek|Nuria|Oskar|Ruth|Samir|Tove|Ugo|Vera|Wanda|Yusuf",
    "town": "Arendal|Bruges|Coimbra|Delft|Evora|Furth|Ghent|Haarlem|Ivrea|Jena|Kalmar|Lucca|Mechelen|Narvik|Olomouc"
    "|Perugia|Roskilde|Siena|Tartu|Uppsala|Viborg|Windsor|York|Zadar",
    "thing": "lamp|bench|kettle|bicycle|ladder|radio|violin|stove|curtain|backpack|keyboard|saucepan|tent|printer",
    "colour": "red|blue|green|grey|yellow|black|white|brown|orange",
    "weather": "a thin fog over the fields|rain from six in the morning|a dry cold that hurts the ears"
    "|the first warm wind|sleet and then a low sun|a storm that takes the tiles off the roofs"
    "|a sky without a cloud|hail as big as peas",
    "meal": "lentil soup|fried perch|rye bread with cheese|a plate of dumplings|cold rice and eggs|plum cake|beans",
    "day": "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday",
    "mood": "tired|content|worried|proud|bored|curious|cross|relieved",
}

DIARY = (
    "Repaired the {colour} {thing} of {name}, who paid with {meal}.",
    "Walked to {town} and back to ask about the {thing}; {weather} on the way.",
    "Wrote {one} letters and burned all but the one to {name}.",
    "I taught {name} to read the map of {town}, which took the whole afternoon.",
    "A stranger from {town} bought the {thing} for {n} crowns and forgot to take it.",
    "Counted {n} geese above the river while {name} slept.",
    "We had {weather}, and I was {mood} until supper.",
    "{name} came by with {meal} and stayed for {one} hours.",
    "Under the floor I found {one} coins, two of them from {town}.",
    "The price of a {thing} has gone up again: {n} crowns in {town}, they say.",
    "Could not sleep; read about the {thing} makers of {town} until {one} o'clock.",
    "Went to see the sea with {name}. Nobody spoke. It was good.",
    "The neighbour's {colour} dog has eaten the {thing} strap and looks {mood}.",
    "I am {mood} about the journey to {town}, which {name} has put off once more.",
    "Nothing happened, unless one counts {meal} for the third time this week.",
    "Dreamt of {town}: every house had a {colour} {thing} in its window.",
)

LOG = (
    "ERROR storage: block {n} of volume {town} unreadable, retry {one}",
    "WARN  auth: user {name} failed to log in {one} times from 10.0.{one}.{n}",
    "INFO  http: GET /{thing}/{n} 200 in {two} ms",
    "INFO  http: POST /orders 201 in {n} ms for {name}",
    "ERROR http: GET /{thing}/{n}/photo 502 upstream {town} closed the connection",
    "INFO  jobs: nightly export of {thing}s done, {n} rows, {one} skipped",
    "WARN  queue: {n} messages wait for worker {town}, oldest {one} min",
    "DEBUG cache: evicted {thing}:{n} ({colour}) after {one} h",
    "INFO  mail: invoice {n}-{two} sent to {name}, {one} attachments",
    "ERROR mail: server {town} refused the message to {name}: mailbox full ({two} MB)",
    "DEBUG search: '{colour} {thing}' gave {n} hits in {two} ms",
    "WARN  disk: /var/{thing} is {two} % full, {n} MB left",
    "INFO  deploy: version {one}.{two} rolled out to {town} by {name}",
    "DEBUG session {n}{two} of {name} closed after {one} h, cart had {one} {thing}s",
)

SPEECH = (
    "I have asked {town} for {n} more {thing}s, but they can send only {one} before the fair.",
    "Then let us tell the customers by {day}; I can write the letter if {name} reads it.",
    "The {colour} model breaks at the hinge, {name} saw it {one} times last week.",
    "We agreed on that already: no new {thing} before the test with {n} users is over.",
    "I would rather move the release to {day} than send out another half-finished {thing}.",
    "The budget has {n} euros left for travel, which is one trip to {town}.",
    "Can somebody explain why the {thing} costs {two} euros more than in spring?",
    "Decision: {name} calls the supplier in {town} on {day} and reports to all of us.",
    "I am {mood} about the numbers from {town}, to be honest.",
    "Could we hear {name} first, who has spoken with the {thing} people?",
    "No objection, as long as the {colour} ones stay in the catalogue.",
    "Last year we promised {n} pieces by {day} and delivered {two}.",
    "My proposal is simple: close the stand in {town}, open one in {other}.",
    "That is {one} weeks of work for one person, and {name} is on leave until {day}.",
    "Please write down that I was against it.",
    "The customer in {other} wants {one} samples in {colour} and will pay for them.",
)

REVIEWS = (
    "Bought the {colour} {thing} in {town}, and after {one} weeks the paint came off.",
    "My daughter {name} loves it, the neighbours less so.",
    "Delivery took {two} days.",
    "The manual is a bad translation; thanks to {name} on the phone I got it going in {one} minutes.",
    "Sturdy, heavy, honest.",
    "I have used it {n} times since {day} and would buy the {colour} one again.",
    "Too loud for a flat.",
    "The shop in {town} took the {thing} back without a question and paid {n} euros.",
    "Cheaper than the one from {town}, and better: the handle no longer gets hot.",
    "What is missing is a bag, and perhaps a second {thing} for guests.",
    "I was {mood} when I opened the box, since the picture shows a {colour} one.",
    "A present for {name}, who has not said a word about it, which is praise.",
    "It survived {weather}, which is more than I can say of my {thing}.",
    "The screws are too short; {one} of them came loose on the way to {town}.",
    "Would have given five stars if it were not for the smell in the first {one} days.",
)

GAZETTEER = (
    "It has {n}0 inhabitants and lies {one} hours by train from {other}.",
    "The market on {day} is known for {meal} and for the {colour} {thing}s that {name} once made there.",
    "In the year 1{n} a fire destroyed {one} streets, which the {thing} in the coat of arms recalls.",
    "The museum shows {n} drawings by {name} and is closed on {day}.",
    "From the tower one sees as far as {other}, except when there is {weather}.",
    "Until 19{two} the river was crossed by a ferry, which took {two} minutes.",
    "Visitors come for {meal} in the inn by the bridge and leave {mood}.",
    "A factory for {thing}s gave work to {n} people before it moved to {other}.",
    "The walk around the lake is {one} kilometres long; a bus goes back {one} times a day.",
    "Every {day} in summer the {colour} house opens its garden, entry {one} euros.",
    "Its dialect has {two} words for {weather}, a professor from {other} has found.",
    "Hotels are full in the week of the {thing} fair, when {n} dealers arrive.",
)

MODULE = (
    "def count_{colour}_{thing}s(rows):\n    total = {one}\n    for row in rows:\n"
    "        if row['town'] == '{town}':\n            total += row['pieces']\n    return total",
    "def price_of_{thing}(size, town='{town}'):\n    base = {n} if town == '{other}' else {two}\n"
    "    return round(base * size ** 0.{two}, 2)",
    "def send_{thing}_to_{name}(queue, retries={one}):\n    while retries > 0:\n        retries -= 1\n"
    "        if queue.push('{colour}', '{town}'):\n            return True\n    return False",
    "class {town}{name}Error(Exception):\n    def __init__(self, place, code={n}):\n"
    "        super().__init__('{thing} at ' + place + ' is broken')\n        self.code = code",
    "def {mood}_{thing}(state):\n    if not state.get('{colour}'):\n        return None\n"
    "    return sorted(state['{colour}'], key=lambda item: item['{day}'])[:{one}]",
    "def table_of_{town}_{thing}s(n={two}):\n    return [[row * column % {n} for column in range(n)]\n"
    "            for row in range({one})]",
    "def ask_{name}(question):\n    answer = input(question + ' [{colour}] ').strip()\n    return answer or '{colour}'",
    "@cache\ndef distance_{town}_{other}(step={one}):\n    return sum(abs(i - {two}) for i in range(0, {n}, step))",
)
