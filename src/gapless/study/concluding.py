"""From an account to causes, and from causes to proposals: the last part of every study."""

from dataclasses import replace

from gapless.model.seen import Seen
from gapless.model.study import Study
from gapless.study.ceilings import ceilings_of
from gapless.study.diagnose import diagnose
from gapless.study.price import Prices
from gapless.study.propose import propose
from gapless.study.replaying import Player


def prices_of(seen: Seen, player: Player) -> Prices:
    """Give what changes of a studied run are priced with."""
    return Prices(seen, player, ceilings_of(seen.study.trials))


def conclude(prices: Prices) -> Study:
    """Give the study with its diagnosis and proposals; without an account it stays as it is."""
    study = prices.seen.study
    if not study.account.wall_ns and (study.recorded is None or study.recorded.account is None):
        return study
    diagnosis = diagnose(prices)
    return replace(study, diagnosis=diagnosis, proposals=propose(prices, diagnosis))
