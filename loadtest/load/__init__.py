"""An open-loop load test over HTTP: scenarios as data, seeded arrivals, figures by token."""

from loadtest.load.answer import Answer, Ending, Recording, read_answer, text_of
from loadtest.load.client import Client, Sending
from loadtest.load.figures import figures_of
from loadtest.load.made_up import MadeUpPrompts
from loadtest.load.plan import Arrival, make_plan
from loadtest.load.run import (
    Outcome,
    Server,
    ServerError,
    converse,
    find_server,
    make_sending,
    play,
)
from loadtest.load.scenario import Scenario, ScenarioError, load_scenario

__all__ = [
    "Answer",
    "Arrival",
    "Client",
    "Ending",
    "MadeUpPrompts",
    "Outcome",
    "Recording",
    "Scenario",
    "ScenarioError",
    "Sending",
    "Server",
    "ServerError",
    "converse",
    "figures_of",
    "find_server",
    "load_scenario",
    "make_plan",
    "make_sending",
    "play",
    "read_answer",
    "text_of",
]
