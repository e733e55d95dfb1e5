"""All figures of a tool, as JSON tells them."""

from collections.abc import Mapping, Sequence

from benchmarks.judging import metrics as m
from benchmarks.judging.metrics import CaseShare, JudgedCases, Miss


def figure_table(judged: JudgedCases) -> Mapping[str, object]:
    """Return all figures of one tool, as JSON tells them."""
    misses, rough_misses, regrets = (
        m.gain_misses(judged),
        m.gain_misses(judged, rough=True),
        m.regrets(judged),
    )
    tau, taus = m.kendall(judged)
    return {
        "first": share_to_json(m.hit_share(judged, 1)),
        "first_three": share_to_json(m.hit_share(judged, 3)),
        "off_menu": share_to_json(m.off_menu_share(judged)),
        "regret_mean": m.mean(regrets),
        "regret_p90": m.quantile(regrets, 0.9),
        "regret_of": len(regrets),
        "false_alarms": share_to_json(m.false_alarms(judged)),
        "open_alarms": share_to_json(m.open_alarms(judged)),
        "false_per_report": m.false_per_report(judged),
        "harmless_named": share_to_json(m.harmless_named(judged)),
        "answered": share_to_json(m.answered_share(judged)),
        "predicted": share_to_json(m.predicted_share(judged)),
        "kendall": tau,
        "kendall_of": taus,
        "gains": {
            name: gains(family_misses)
            for name, family_misses in {"all": misses, **m.by_family(misses)}.items()
        },
        "rough_gains": gains(rough_misses),
    }


def gains(misses: Sequence[Miss]) -> Mapping[str, object]:
    """Return the figures of some predictions."""
    return {
        "of": len(misses),
        "error_points": m.mean_error(misses),
        "bias_points": m.bias(misses),
        "rate_error": m.rate_error(misses),
        "signs": share_to_json(m.signs(misses)),
        "covered": share_to_json(m.covered_share(misses)),
        "width_points": m.width(misses),
        "winkler_points": m.winkler(misses),
    }


def share_to_json(share: CaseShare) -> Mapping[str, object]:
    """Return a share, as JSON tells it."""
    return {"count": share.count, "of": share.total, "share": share.value}
