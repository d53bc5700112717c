#!/bin/sh
# The figures of docs/results.md that need one GPU, part by part:
#
#   scripts/measure_gpu.sh OUT [PART...]        # by default all of them
#
# Every part leaves OUT/PART.log, and OUT/PART.done when it has ended well: a second call goes on with what is missing, and studies
# resume from their checkpoints. Seconds are those of one H200, as far as they are known. Stop it whenever you like.
#
#   tests      kernels, engine and parity with the CPU, on this GPU
#   blocks     what blocks of a study cost on one device                     120 s
#   serve      eight tenants of `redqueen serve` against one, shape 0.5b
#   balance    study-balance, the arms that came closest, with fresh seeds   200 s
#   engine     what sampling and training reach, shape 0.5b                   60 s
#   steps      where the seconds of a real run's steps go                    120 s   BASE
#   study      study-qwen, one seed at a time                                        BASE
#   suites     benchmarks of base, soup, chosen and members of that study            BASE, DATA
#
# BASE: a folder with Qwen2.5-Coder-0.5B-Instruct, a .gguf, or its name on the hub. DATA: the folder of the benchmarks' files.
# SEEDS: of `study` and `suites`, by default "0 1 2". DEVICE and MORE (more settings for runs) are for trying this script without a GPU.
set -u
out=${1:?usage: scripts/measure_gpu.sh OUT [PART...]}
shift
[ $# -gt 0 ] || set -- tests blocks serve balance engine steps study suites
mkdir -p "$out"
root=$(cd "$(dirname "$0")/.." && pwd)
DEVICE=${DEVICE:-cuda} SEEDS=${SEEDS:-0 1 2} MORE=${MORE:-} SHAPE=${SHAPE:-0.5b} WORK=${WORK:-}

say() { printf '%s measure: %s\n' "$(date +%H:%M:%S)" "$*"; }

# a run that has a ledger goes on, another begins
play() { # FOLDER, then the words that begin it
    folder=$1
    shift
    if [ -e "$folder/run.sqlite" ]; then redqueen resume "$folder"; else redqueen "$@" --out "$folder" --device "$DEVICE" $MORE; fi
}

timings() { # FOLDER: means over the second half of the steps
    python - "$1" <<'END'
import sqlite3, sys
ledger = sqlite3.connect(f"file:{sys.argv[1]}/run.sqlite?mode=ro", uri=True)
half = ledger.execute("SELECT max(step) / 2 FROM metrics").fetchone()[0]
for row in ledger.execute(
    "SELECT name, avg(value), count(*) FROM metrics WHERE step > ? AND "
    "(name LIKE 'time/%' OR name LIKE 'update/%' OR name LIKE '%/tokens' OR name LIKE '%cut_off%')"
    " GROUP BY name ORDER BY name", (half,)
):
    print("%-44s %14.4f  %d" % row)
END
}

tests() { (cd "$root" && python -m pytest -q -x -m "gpu or not slow" tests/contract/test_kernels.py tests/contract/test_engine.py tests/contract/test_parity.py); }
blocks() { redqueen bench blocks --device "$DEVICE" --json; }
serve() {
    redqueen bench serve --base "$SHAPE" --device "$DEVICE" --tenants 8 ${WORK:---completions 512 --tokens 128 --prompt-tokens 128 --warmup 3 --steps 6} --json
}
balance() {
    play "$out/balance" study study-balance --arm no-replay --arm sixteen-attempts --arm no-replay-sixteen-attempts --set "seeds=[30,31,32,33,34,35]" &&
        redqueen compare "$out/balance"
}
engine() {
    redqueen bench engine --device "$DEVICE" --model "$SHAPE" --no-peft ${WORK:---rank 32 --max-num-seqs 512 --prompts 256 --prompt-tokens 256 --longest 192 --skew 2 --max-prefill-tokens 65536 --max-tokens-per-microbatch 32768 --rounds 2} --json
}
steps() { play "$out/steps" run qwen-coder-0.5b --base "$BASE" --set steps=8 && timings "$out/steps"; }
study() {
    for seed in $SEEDS; do
        play "$out/study-$seed" study study-qwen --base "$BASE" --set "seeds=[$seed]" && timings "$out/study-$seed" || return 1
    done
}
suites() {
    for seed in $SEEDS; do
        redqueen eval "$out/study-$seed" --suite code --suite gsm8k --suite math500 --member students --member soup --member chosen --data "$DATA" --device "$DEVICE" || return 1
    done
    redqueen eval "$BASE" --suite code --suite gsm8k --suite math500 --style best --data "$DATA" --device "$DEVICE"
}

failed=
for part in "$@"; do
    case $part in tests | blocks | serve | balance | engine | steps | study | suites) ;; *) say "there is no part $part"; exit 2 ;; esac
    case $part in steps | study | suites) [ -n "${BASE:-}" ] || { say "$part: skipped, BASE is not set"; failed="$failed $part"; continue; } ;; esac
    [ "$part" = suites ] && [ -z "${DATA:-}" ] && { say "suites: skipped, DATA is not set"; failed="$failed $part"; continue; }
    [ -e "$out/$part.done" ] && { say "$part: done before"; continue; }
    say "$part"
    started=$(date +%s)
    if "$part" >"$out/$part.log" 2>&1; then
        took=$(($(date +%s) - started))
        echo "$took s" >"$out/$part.done"
        say "$part: $took s, $out/$part.log"
    else
        say "$part: failed, the end of $out/$part.log:"
        tail -n 5 "$out/$part.log"
        failed="$failed $part"
    fi
done
[ -z "$failed" ] || { say "missing:$failed"; exit 1; }
