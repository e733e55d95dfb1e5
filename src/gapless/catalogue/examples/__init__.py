"""Builders of evidence and facts for the figures of rules and the cases of fixes."""
