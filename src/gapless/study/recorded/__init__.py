"""What the light marks of a recorded run tell, and how its windows refine that.

``training`` picks the processes that trained, ``edges`` finds their steps, ``fetches`` and
``waits`` charge waits for data to stages, ``rows`` makes run rows, ``account`` joins them with the
windows.
"""
