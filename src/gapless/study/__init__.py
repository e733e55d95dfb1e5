"""From paths to a study: read, match collectives, partition, account, tables, health.

``open_study`` does all of it, ``open_run`` does it for a run that gapless recorded; ``compare``
takes two of their results. One capture is summarised where its columns are (``capture``), in a
process of its own if there are many ranks (``capture.ranks``); only summaries travel.
"""

from gapless.model.options import Options
from gapless.study.opening import open_job, open_run, open_study, study_ended_run, study_recording

__all__ = ["Options", "open_job", "open_run", "open_study", "study_ended_run", "study_recording"]
