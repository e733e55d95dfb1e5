"""The model of a training as files for use elsewhere: caught, exported, checked, measured."""
