"""Build a study, where the cache has none."""

from collections.abc import Sequence
from typing import Final

from gapless.capture.assemble import assemble_study, read_summaries
from gapless.capture.reread import captures
from gapless.catalogue.queries.trace_facts import infer_facts
from gapless.model.evidence import Evidence
from gapless.model.options import Options, Progress
from gapless.model.study import Study
from gapless.pricing.conclude import conclude, prices_of
from gapless.pricing.simulators.simulator import build_simulator

_OTHER_FRAMEWORKS: Final = "xla"  # the source of profiles of JAX and TensorFlow


def make_study(files: Sequence[str], options: Options, report_progress: Progress) -> Study:
    """Read traces and return their study: one rank or many. Raises ``GaplessError``."""
    summaries, unreadable = read_summaries(files, options, report_progress)
    study = assemble_study(summaries, unreadable, options)
    if not options.concludes or _is_of_another_framework(study):
        return study
    report_progress("looking for causes")
    evidence = Evidence(study, infer_facts(study))
    return conclude(
        prices_of(evidence, build_simulator(captures(summaries), evidence, cached=options.cache))
    )


def _is_of_another_framework(study: Study) -> bool:
    """Return whether causes and fixes, which are PyTorch's, would be those of another framework."""
    return study.health.source == _OTHER_FRAMEWORKS
