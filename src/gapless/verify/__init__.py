"""Proposals measured: arms in turns, their interval, their verdict, what they trained on."""
