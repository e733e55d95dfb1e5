"""From an account to causes, and from causes to proposals: the last part of every study."""

from msgspec.structs import replace

from gapless.model.evidence import Evidence
from gapless.model.study import Study
from gapless.pricing.ceilings import ceilings_of
from gapless.pricing.diagnose import diagnose
from gapless.pricing.forecast import draw_forecast
from gapless.pricing.price import Prices
from gapless.pricing.propose import propose_fixes
from gapless.pricing.simulators.protocol import Simulator


def prices_of(evidence: Evidence, simulator: Simulator) -> Prices:
    """Return the evidence with which changes of a studied run are priced."""
    return Prices(evidence, simulator, ceilings_of(evidence.study.trials))


def conclude(prices: Prices) -> Study:
    """Return the study with its diagnosis and proposals; without an account it stays as it is."""
    study = prices.evidence.study
    if not study.account.wall_ns and prices.evidence.step_account is None:
        return study
    diagnosis = diagnose(prices)
    proposals = propose_fixes(prices, diagnosis)
    forecast = None if study.picture is None else draw_forecast(prices, proposals)
    return replace(study, diagnosis=diagnosis, proposals=proposals, forecast=forecast)
