"""How the pages of a generated world tell facts. {n} is the thing, {v} the value, {s} and {o} are she and her, he and his."""

# Openings tell some facts at once; the names of the relations in them stand for the values.
OPENINGS: dict[str, tuple[str, ...]] = {
    "person": (
        "{n} ({born} \u2013 {died}) was a noted {occupation}.",
        "{n} was a {occupation} and a native of {birthplace}.",
        "{n} (born {born} in {birthplace}) worked for most of life as a {occupation}.",
        "{n} is one of the lesser known figures of the period.",
    ),
    "town": (
        "{n} is a town in {province}, on the river {river}.",
        "{n} is a town that lies {altitude} metres above the sea, in {province}.",
        "{n} is an old market town with {population} inhabitants.",
        "{n} is a town known for its fairs and its stone houses.",
    ),
    "institution": (
        "{n} is an institution in {seat}, founded by {founder}.",
        "{n} opened its doors in {opened} in the town of {seat}.",
        "{n} has a staff of {staff}.",
        "{n} is an institution with a long and uneven history.",
    ),
    "work": (
        "{n} is a {form} by {author}.",
        "{n} is a {form} completed in {year}.",
        "{n}, by {author}, was finished in {year}.",
        "{n} is a work that critics still quarrel about.",
    ),
    "event": (
        "The {n} was held in {place} and opened on {held}.",
        "The {n} was led by {leader} and drew {attendance} people.",
        "The {n} opened on {held}.",
        "The {n} is remembered chiefly in local chronicles.",
    ),
}

FACTS: dict[str, tuple[str, ...]] = {
    "born": (
        "{n} was born on {v}.",
        "The church register records the birth of {n} under {v}.",
        "{S} came into the world on {v}.",
        "{O} date of birth is given as {v}.",
    ),
    "died": (
        "{n} died on {v}.",
        "{S} passed away on {v} after a short illness.",
        "Death came on {v}.",
        "The burial book notes {v} as the day on which {n} died.",
    ),
    "birthplace": (
        "{n} was born in {v}.",
        "{O} native town was {v}.",
        "{S} grew up in {v}, where {s} had been born.",
        "The house in which {n} was born stands in {v}.",
    ),
    "occupation": (
        "By profession {n} was a {v}.",
        "{S} earned a living as a {v}.",
        "{O} trade was that of a {v}.",
        "In documents of the time {n} signs as {v}.",
    ),
    "school": (
        "{n} studied at {v}.",
        "{O} student years were spent at {v}.",
        "{S} enrolled at {v} at the age of eighteen.",
        "The rolls of {v} list {n} among the students.",
    ),
    "teacher": (
        "{n} was taught by {v}.",
        "{O} teacher was {v}.",
        "{S} learned the craft under {v}.",
        "It was {v} who taught {n}.",
    ),
    "spouse": (
        "{n} was married to {v}.",
        "{S} married {v}.",
        "{O} marriage with {v} lasted until death parted them.",
        "In the spring {s} wed {v}.",
    ),
    "province": (
        "{n} belongs to {v}.",
        "The town lies in {v}.",
        "For purposes of administration it is part of {v}.",
        "Since the last reform {n} has been in {v}.",
    ),
    "river": (
        "{n} stands on the river {v}.",
        "The river {v} flows through the town.",
        "Its quays line the river {v}.",
        "The old bridge of {n} crosses the river {v}.",
    ),
    "founded": (
        "{n} was founded in {v}.",
        "The town charter dates its foundation to {v}.",
        "Settlers founded the town in {v}.",
        "The foundation of {n} falls in the year {v}.",
    ),
    "population": (
        "{n} has {v} inhabitants.",
        "The latest census counted {v} inhabitants.",
        "Its population is {v}.",
        "Today {v} people live in {n}.",
    ),
    "altitude": (
        "{n} lies {v} metres above the sea.",
        "The market square is at an altitude of {v} metres.",
        "Its altitude is {v} metres.",
        "Surveyors put the height of {n} at {v} metres.",
    ),
    "seat": (
        "{n} has its seat in {v}.",
        "Its main building stands in {v}.",
        "The institution is based in {v}.",
        "Visitors find {n} in the centre of {v}.",
    ),
    "opened": (
        "{n} opened in {v}.",
        "Its doors first opened in {v}.",
        "The opening took place in {v}.",
        "The year in which {n} opened was {v}.",
    ),
    "founder": (
        "{n} was founded by {v}.",
        "Its founder was {v}.",
        "The institution owes its existence to {v}, who founded it.",
        "It was {v} who founded {n}.",
    ),
    "staff": (
        "{n} employs {v} people.",
        "Its staff numbers {v}.",
        "The payroll lists {v} people.",
        "In all, {v} people work at {n}.",
    ),
    "author": (
        "{n} was made by {v}.",
        "Its author is {v}.",
        "The hand behind {n} is that of {v}.",
        "The work is by {v}.",
    ),
    "year": (
        "{n} was completed in {v}.",
        "The work was finished in {v}.",
        "Its date of completion is {v}.",
        "The last touches to {n} were put in {v}.",
    ),
    "form": (
        "In form {n} is a {v}.",
        "The work is a {v}.",
        "Catalogues list it as a {v}.",
        "It belongs to the genre of the {v}.",
    ),
    "dedicatee": (
        "{n} is dedicated to {v}.",
        "The work bears a dedication to {v}.",
        "Its dedicatee is {v}.",
        "On the first leaf stands a dedication to {v}.",
    ),
    "keeper": (
        "{n} is kept at {v}.",
        "The original is in the keeping of {v}.",
        "Its present home is {v}.",
        "For many years {v} has kept {n}.",
    ),
    "place": (
        "The {n} took place in {v}.",
        "The town of {v} was its host.",
        "The venue was {v}.",
        "It was {v} that gave a home to the {n}.",
    ),
    "held": (
        "The {n} began on {v}.",
        "The opening day was {v}.",
        "It opened on {v}.",
        "Proceedings started on {v}.",
    ),
    "leader": (
        "The {n} was led by {v}.",
        "Its leader was {v}.",
        "The organisers chose {v} to lead it.",
        "At the head of the {n} stood {v}.",
    ),
    "attendance": (
        "The {n} drew {v} people.",
        "Its attendance was {v}.",
        "In all, {v} people attended.",
        "The count of those who attended came to {v}.",
    ),
}
