"""Pages of rules and fixes: what ``gapless explain`` prints, and the docs show."""
