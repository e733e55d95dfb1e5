"""A stand-in for unidecode: text that is ASCII already."""


def unidecode(text):
    return text
