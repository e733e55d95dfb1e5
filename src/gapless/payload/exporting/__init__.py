"""The model of a training, exported in its process and measured there in the place of training."""
