"""Many ranks at a time: a pool of processes, what each is asked, and what it answers."""
