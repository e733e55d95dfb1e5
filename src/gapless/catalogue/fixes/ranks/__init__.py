"""Fixes for how ranks exchange gradients."""
