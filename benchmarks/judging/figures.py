"""All figures of a tool, as JSON tells them."""

from collections.abc import Mapping, Sequence

from benchmarks.judging import metrics as m
from benchmarks.judging.metrics import Judged, Miss, Share


def table(judged: Judged) -> Mapping[str, object]:
    """Give all figures of one tool, as JSON tells them."""
    some, rough, left = m.misses(judged), m.misses(judged, rough=True), m.regrets(judged)
    tau, taus = m.kendall(judged)
    return {
        "first": told(m.found(judged, 1)),
        "first_three": told(m.found(judged, 3)),
        "off_menu": told(m.off_menu(judged)),
        "regret_mean": m.mean(left),
        "regret_p90": m.quantile(left, 0.9),
        "regret_of": len(left),
        "false_alarms": told(m.false_alarms(judged)),
        "open_alarms": told(m.open_alarms(judged)),
        "false_per_report": m.false_per_report(judged),
        "harmless_named": told(m.harmless_named(judged)),
        "answered": told(m.answered(judged)),
        "predicted": told(m.predicted(judged)),
        "kendall": tau,
        "kendall_of": taus,
        "gains": {name: gains(each) for name, each in {"all": some, **m.by_family(some)}.items()},
        "rough_gains": gains(rough),
    }


def gains(some: Sequence[Miss]) -> Mapping[str, object]:
    """Give the figures of some predictions."""
    return {
        "of": len(some),
        "error_points": m.mean_error(some),
        "bias_points": m.bias(some),
        "rate_error": m.rate_error(some),
        "signs": told(m.signs(some)),
        "covered": told(m.covered(some)),
        "width_points": m.width(some),
        "winkler_points": m.winkler(some),
    }


def told(share: Share) -> Mapping[str, object]:
    """Give a share, as JSON tells it."""
    return {"count": share.count, "of": share.of, "share": share.value}
