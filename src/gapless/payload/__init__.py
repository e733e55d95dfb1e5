"""What enters the user's processes. Standard library only, Python 3.9 to 3.14."""
