"""From paths to a study: read, match collectives, partition, account, tables, health.

``open_study`` is the whole of it, ``open_run`` for a run that gapless recorded;
``compare`` takes two of its results. One capture is summarised
where its columns are (``capture``), in a process of its own if there are many ranks (``ranks``);
only summaries travel.
"""

from gapless.study.opening import open_run, open_study, study_recording
from gapless.study.options import Options

__all__ = ["Options", "open_run", "open_study", "study_recording"]
