#!/bin/sh
# Makes .venv with everything pinned: torch first, by pip, then the locked dependencies, then this project.
# Does nothing, and needs no network, when the set-up is already that of these files.
set -eu
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
TORCH=${TORCH:-torch==2.13.0}

fail() { printf 'set-up: %s\n' "$*" >&2; exit 1; }

command -v "$PYTHON" >/dev/null 2>&1 || fail "there is no '$PYTHON'. Install Python 3.11 or later (Debian, Ubuntu: apt install python3 python3-venv), or name yours: make PYTHON=python3.12 ..."
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$PYTHON is $("$PYTHON" --version 2>&1); Python 3.11 or later is needed. Name another: make PYTHON=python3.12 ..."

expected="$(cat pyproject.toml requirements.lock scripts/setup.sh | cksum) $TORCH $("$PYTHON" -c 'import sys; print(sys.version)') $(pwd)"
if [ -x .venv/bin/redqueen ] && [ "$(cat .venv/set-up 2>/dev/null)" = "$expected" ]; then
    exit 0
fi

"$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || fail "this Python cannot make virtual environments. Install its venv module (Debian, Ubuntu: apt install python3-venv) and call make again."
if [ ! -x .venv/bin/python ] || ! .venv/bin/python -c pass 2>/dev/null; then
    echo "set-up: making .venv with $("$PYTHON" --version)"
    rm -rf .venv
    "$PYTHON" -m venv .venv || fail "could not make .venv: see above"
fi

install() {
    .venv/bin/pip install --quiet --disable-pip-version-check "$@" || fail "pip could not install ($*).
  Without network only what is already in .venv is at hand: call make again once there is one.
  If a package was being built, it needs a compiler and Python's headers (Debian, Ubuntu: apt install build-essential python3-dev)."
}
echo "set-up: installing $TORCH (the largest part; once)"
install --constraint requirements.lock "$TORCH"
# A torch for GPUs brings the Triton it was built for. For others: the kernels' tests run in its interpreter.
.venv/bin/python -c 'import triton' 2>/dev/null || install triton==3.7.1
echo "set-up: installing the locked dependencies"
install -r requirements.lock
install --no-deps --no-build-isolation --editable .
printf '%s' "$expected" > .venv/set-up
echo "set-up: done. Type \`. .venv/bin/activate\` to have redqueen on your path"
