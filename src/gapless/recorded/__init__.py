"""What the light marks of a recorded run show, and how its windows refine that.

``training.processes`` picks the processes that trained, ``training.edges`` finds their steps,
``loaders.fetches`` and ``loaders.waits`` charge waits for data to stages, ``steps.rows`` makes run
rows, ``steps.account`` joins them with the windows.
"""
