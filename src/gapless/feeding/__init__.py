"""What the input of a training costs, stage by stage, and what each alternative here would cost."""
