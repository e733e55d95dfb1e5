"""Arms of a trial: run, steadied, compared, checked for parity."""
