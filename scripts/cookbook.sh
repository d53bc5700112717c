#!/bin/sh
# Makes .venv-cookbook with tinker-cookbook, whose transformers is older than ours, so that its recipes run as they are against our server.
# Does nothing, and needs no network, when it is already there.
set -eu
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
TORCH=${TORCH:-torch==2.13.0}
COOKBOOK=${COOKBOOK:-tinker-cookbook[math-rl]==0.5.8}
SDK='tinker>=0.36,<0.37'

expected="$TORCH $COOKBOOK $SDK $("$PYTHON" -c 'import sys; print(sys.version)') $(pwd)"
if [ "$(cat .venv-cookbook/set-up 2>/dev/null)" = "$expected" ]; then
    exit 0
fi
rm -rf .venv-cookbook
"$PYTHON" -m venv .venv-cookbook
echo "cookbook: installing $TORCH, $COOKBOOK and what it needs; once"
# torch first, and pinned after that: else pip may take another build of it.
.venv-cookbook/bin/pip install --quiet --disable-pip-version-check "$TORCH"
.venv-cookbook/bin/pip freeze | grep '^torch==' > .venv-cookbook/torch
.venv-cookbook/bin/pip install --quiet --disable-pip-version-check --constraint .venv-cookbook/torch "$SDK" "$COOKBOOK"
printf '%s' "$expected" > .venv-cookbook/set-up
echo "cookbook: done"
