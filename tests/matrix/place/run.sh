#!/bin/bash
# As clusters' scripts are: an environment, a training, something after it.
set -u
export SEED=1
"$PYTHON" training.py "$@"
code=$?
echo "ended with $code"
exit $code
