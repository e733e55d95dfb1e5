"""What a study found as metrics of the same run in an experiment tracker."""

KINDS = ("wandb", "mlflow", "tensorboard")
