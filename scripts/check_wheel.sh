#!/bin/sh
# Builds wheel and sdist, installs the wheel into an empty environment, and uses it from an empty folder: what is missing in the
# package shows here, not in a clone. About five minutes on two cores; needs a network. PYTHON and TORCH are as in setup.sh.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
PYTHON=${PYTHON:-python3}
TORCH=${TORCH:-torch==2.13.0}
work=${1:-$(mktemp -d)}
mkdir -p "$work/empty"
unset PYTHONPATH

say() { printf '\nwheel: %s\n' "$*"; }
pip() { "$1/bin/pip" install --quiet --disable-pip-version-check "$2"; }

say "building in $work"
"$PYTHON" -m venv "$work/tools"
pip "$work/tools" build
pip "$work/tools" twine
rm -rf "$work/dist"
"$work/tools/bin/python" -m build --outdir "$work/dist" "$root" > "$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
"$work/tools/bin/twine" check --strict "$work"/dist/*

say "installing into an empty environment"
wheel=$(ls "$work"/dist/*.whl)
"$PYTHON" -m venv "$work/env"
pip "$work/env" "$TORCH" # first: a torch that pip would choose by itself may be for GPUs
pip "$work/env" "redqueen[plot] @ file://$wheel"

cd "$work/empty"
rm -rf run adapter problems rows curves.pdf
redqueen() { say "redqueen $*"; "$work/env/bin/redqueen" "$@"; }
redqueen --version
redqueen doctor
redqueen run --set steps=2 --out run
redqueen report run
redqueen eval run --suite heldout-quick --limit 20
redqueen export run --member S0 --out adapter
redqueen export run --problems --all --out problems
redqueen export run --problems --as trl --all --out rows
redqueen plot run --out curves.pdf
redqueen digest run
for made in run/report.html adapter/adapter_model.safetensors problems/problems.jsonl rows/README.md curves.pdf; do
    [ -s "$made" ] || { say "$made is missing"; exit 1; }
done
say "works outside the clone, as installed from $(basename "$wheel")"
