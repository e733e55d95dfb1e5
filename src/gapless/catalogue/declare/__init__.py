"""How rules and fixes are declared, listed, parsed and looked up by name."""
