"""What the input of a training costs, measured in its process in the place of training."""
