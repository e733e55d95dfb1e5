"""One module a command: SUMMARY, arguments(parser), main(arguments) → exit code."""
