"""Two instances of one pipeline: the one that was overtaken commits nothing and leaves no trace."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from scstream.errors import Fenced, SinkError
from tests.faults.simulation import SETUPS, World, reference
from tests.faults.turns import Zombie

N_GAMES = 150  # `python -m benchmarks faults` stops real instances
REACH = 130  # calls of the disk that a short run makes
NAMES = ("count", "timer", "partitions")


def play(setup, n_games):
    """Yield games with random moves, after a last instance has come to its end."""
    random = Random(0)
    for seed in range(n_games):
        game = Zombie(World(setup, seed), random.randrange(REACH), random.randrange(REACH))
        game.play()
        assert game.world.run()
        yield game


def loser(game):
    """What the instance that was overtaken ended with, if one was."""
    ends = [end for end in (game.first, game.second) if end is not None]
    return ends[0] if ends else None


@pytest.mark.parametrize("name", NAMES)
def test_an_instance_that_was_replaced_leaves_no_trace(name):
    """Labels and model are those of one run, wherever the first was stopped and went on.

    It ends by `Fenced`; the other may find that somebody writes to its file, and start anew.
    """
    setup = SETUPS[name]
    expected = reference(setup)
    ends = Counter()
    for game in play(setup, N_GAMES):
        game.world.check(expected)
        game.check_commits()
        ends[type(loser(game))] += 1
        assert loser(game) is None or isinstance(loser(game), Fenced | SinkError), (
            f"stopped at {game.stop}, went on at {game.go_on}: {loser(game)!r}"
        )
    assert ends[Fenced] > N_GAMES / 4


def test_a_store_that_renames_instead_of_linking_is_detected():
    """Without compare-and-set both instances believe that they are the one."""
    setup = replace(SETUPS["count"], ignored=frozenset({"compare"}))
    with pytest.raises(AssertionError, match=r"committed|two have the epochs"):
        for game in play(setup, N_GAMES):
            game.check_commits()
