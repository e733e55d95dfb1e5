"""A stand-in for requests: nothing is fetched."""


def get(*_, **__):
    raise OSError("nothing is fetched here")
