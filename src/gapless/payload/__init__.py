"""What enters the user's processes. Standard library only, Python 3.9 to 3.14.

A process enters by ``boot``. Hooks are declared for modules or moments (``declare``), replace
functions once these are imported (``imports``, ``patching``) and note marks and facts
(``recorder``), which ``log`` writes into the spool. ``stepping`` finds the edges of steps: there
the profiler's windows open (``windows``), and a trial switches its edits (``overlay``, ``trial``).
``stacks`` looks from a thread of its own; ``loading`` times what loaders do. ``feeding`` and
``exporting`` measure in the place of the training, which ends with them.
"""
