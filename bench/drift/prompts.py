"""Prompts of three kinds of work, each put together from parts, in a fixed order."""

import random
from collections.abc import Iterator, Mapping
from itertools import cycle
from types import MappingProxyType

_TOPICS = """
the ocean; a good night's sleep; learning the guitar; bread; volcanoes; job interviews; the moon;
bicycles; coffee; public speaking; winter gardens; the Roman empire; chess; electric cars; bees;
saving money; a healthy breakfast; libraries; black holes; teamwork; running shoes; the printing
press; dogs and cats; mountain hiking; renewable energy; photography; the history of tea; migraine;
first aid; castles; dinosaurs; online privacy; origami; rivers; meditation; space travel; museums;
honesty; the stock market; soil; glaciers; small talk; recycling; jazz; ancient Egypt; airports
"""
_ASKS = """
What should I know about {}?; Write a short story about {}.; Explain {} to a child.;
Give me five tips about {}.; Write an email to a friend about {}.; Why do people care about {}?;
List the advantages and disadvantages of {}.; Describe a day that has to do with {}.
"""
_TABLES = """
customers with id, name, city and created_at; orders with id, customer_id, total and ordered_at;
products with id, title, price and stock; employees with id, name, department_id and salary;
departments with id, name and budget; invoices with id, order_id, amount and paid;
flights with id, origin, destination and departs_at; students with id, name, grade and school_id;
books with id, title, author_id and year; sensors with id, room, temperature and measured_at;
payments with id, user_id, amount and method; tickets with id, event_id, seat and price
"""
_QUERIES = """
the ten newest rows; the average by group; the rows above the average; the number of rows by month;
duplicates; the largest value in each group; rows without a partner in another table;
a running total; the second highest value; an index that speeds up a search by date;
a view with the most important columns; an update of one column for old rows;
the creation of the table with sensible types; the deletion of rows older than a year
"""
_THEMEN = """
den Wald; die Eisenbahn; gesundes Essen; den Klimawandel; die deutsche Sprache; Hunde; Musik;
das Meer; die Schule; Berlin; den Winter; Fußball; alte Burgen; das Internet; die Familie; Bücher;
die Sonne; den Beruf des Arztes; Freundschaft; Kaffee; Bienen; die Alpen; Autos; den Garten;
das Mittelalter; Zeitungen; die Demokratie; Wasser; das Reisen; Brot; Träume; den Mond
"""
_FRAGEN = """
Schreibe einen kurzen Text über {}.; Erkläre einem Kind {}.; Was weißt du über {}?;
Schreibe eine Geschichte über {}.; Nenne fünf Tatsachen über {}.;
Schreibe einen Brief an einen Freund über {}.; Warum mögen viele Menschen {}?
"""


def _parts(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split(";")]


def _chat() -> list[str]:
    return [ask.format(topic) for ask in _parts(_ASKS) for topic in _parts(_TOPICS)]


def _sql() -> list[str]:
    return [
        f"There is a table {table}. Write an SQL statement for {query}, and explain it."
        for table in _parts(_TABLES)
        for query in _parts(_QUERIES)
    ]


def _german() -> list[str]:
    return [frage.format(thema) for frage in _parts(_FRAGEN) for thema in _parts(_THEMEN)]


KINDS: Mapping[str, list[str]] = MappingProxyType(
    {"chat": _chat(), "sql": _sql(), "german": _german()}
)
"""Prompts by kind, in the order in which the workload changes."""


def prompts_of(kind: str) -> Iterator[tuple[str, float, int]]:
    """Yield prompts, temperatures and seeds, endlessly; a prompt that returns is sampled anew."""
    prompts = list(KINDS[kind])
    random.Random(kind).shuffle(prompts)  # an order, no secret
    for number, prompt in enumerate(cycle(prompts)):
        is_greedy = number < len(prompts) and number % 2 == 0
        yield prompt, 0.0 if is_greedy else 0.7, number
