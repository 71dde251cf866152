#!/usr/bin/env bash
# The command line as people meet it: help, mistakes with their exit code and text, pipes, the manual page.
set -uo pipefail
roux=$ROUX_PROGRAM
work=$(mktemp -d "${TMPDIR:-/tmp}/roux-cli-XXXXXX")
trap 'rm -rf "$work"' EXIT
golden=$ROUX_SOURCE/tests/golden/models
cd "$work" || exit 1
failed=0

die() { echo "FAIL: $*"; failed=1; }

# wants CODE PART COMMAND...: exit code, and PART somewhere in what it says.
wants() {
    local code=$1 part=$2 got=0
    shift 2
    "$@" >out 2>err </dev/null || got=$?
    [ "$got" = "$code" ] || die "$*: exit code $got, not $code: $(cat err)"
    [ -z "$part" ] || grep -qF -- "$part" out err || die "$*: nothing says '$part': $(head -c 2000 out err)"
    [ "$code" = 0 ] || [ "$code" = 75 ] || ! grep -q "internal error" err || die "$*: $(cat err)"
}

# refuses CODE PART COMMAND...: the same, said as an error on stderr in one line.
refuses() {
    wants "$@"
    [ "$(grep -c '^roux: error: ' err)" = 1 ] || die "${*:3}: no single error line: $(cat err)"
}

cat >recipe.yaml <<'EOF'
distributed_backend: alone
trainer: { accelerator: cpu, devices: 1, precision: 32, max_steps: 2, log_every_n_steps: 1, threads: 1 }
exp_manager:
  explicit_log_dir: log
  export_full_model: { save_last: false }
  checkpoint_callback_params: { save_last: false, every_n_train_steps: 0 }
model:
  do_finetune: false
  fp8: false
  vocab_size: 256
  hidden_size: 32
  intermediate_size: 64
  num_hidden_layers: 1
  num_attention_heads: 2
  num_key_value_heads: 1
  max_context_width: 16
  train_batch_size: 2
  activation_loading_horizon: 1
  optim: { lr: 0.003, sched: { warmup_steps: 1, min_lr: 0.0003 } }
  data: { use_synthetic_data: true }
EOF

# ---- help ----
wants 0 "usage: roux COMMAND" "$roux" --help
wants 0 "usage: roux COMMAND" "$roux" help
wants 0 "roux 0." "$roux" --version
wants 2 "usage: roux COMMAND" "$roux"
commands=$("$roux" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ "$(echo "$commands" | wc -w)" -ge 7 ] || die "the help lists too few commands: $commands"
for command in $commands; do
    wants 0 "usage: roux $command" "$roux" "$command" --help
    grep -q "^examples:" out || die "$command --help has no examples"
    grep -q "^  roux $command" out || die "$command --help: the examples show something else"
    [ "$(awk 'length > 100' out | wc -l)" = 0 ] || grep -q "^  roux" <(awk 'length > 100' out) || die "$command --help: lines too long"
    wants 0 "usage: roux $command" "$roux" help "$command"
    refuses 2 "$command: unknown option --nonsense" "$roux" "$command" --nonsense
done
refuses 2 "unknown command 'trian'; did you mean train?" "$roux" trian
refuses 2 "unknown command 'zzzzzz'" "$roux" zzzzzz
refuses 2 "unknown command 'zzzzzz'" "$roux" help zzzzzz
refuses 2 "unknown option --nonsense" "$roux" --nonsense

# The page in man/ is the one that this program makes: roux --manual >man/roux.1
"$roux" --manual | cmp - "$ROUX_SOURCE/man/roux.1" || die "man/roux.1 is not up to date"

# ---- help is quick: no MPI, nothing heavy ----
start=$(date +%s%N)
for _ in 1 2 3 4 5 6 7 8 9 10; do "$roux" --help >/dev/null; done
took=$((($(date +%s%N) - start) / 10000000))
[ "$took" -le 50 ] || die "roux --help takes $took ms"

# ---- check ----
wants 0 "ok: recipe.yaml: llama" "$roux" check recipe.yaml
wants 0 "4 ranks" "$roux" check recipe.yaml --ranks 4
wants 0 '"ok": true' "$roux" check recipe.yaml --json
wants 2 "absent.yaml" "$roux" check absent.yaml
wants 2 "override 1: error: model.hiden_size" "$roux" check recipe.yaml model.hiden_size=3
grep -q "hidden_size" out || die "the nearest key is not named"
wants 2 '"errors": 1' "$roux" check recipe.yaml --json trainer.max_steps=0
wants 2 "trainer.max_steps" "$roux" check recipe.yaml trainer.max_steps=99999999999999999999
wants 2 "model.data.train_dir: nowhere is not there" "$roux" check recipe.yaml model.data.use_synthetic_data=false model.data.train_dir=nowhere
wants 2 "recipe.yaml is not a folder" "$roux" check recipe.yaml model.data.use_synthetic_data=false model.data.train_dir=recipe.yaml
wants 2 "nowhere is not there" "$roux" check recipe.yaml model.do_finetune=true model.hf_model_name_or_path=nowhere
mkdir -p hollow
wants 2 "config.json" "$roux" check recipe.yaml model.do_finetune=true model.hf_model_name_or_path=hollow
: >empty.yaml
wants 2 "distributed_backend" "$roux" check empty.yaml
head -c 4000 /dev/urandom >binary.yaml
wants 2 "binary.yaml" "$roux" check binary.yaml
head -c 300 recipe.yaml >truncated.yaml
wants 2 "truncated.yaml" "$roux" check truncated.yaml
wants 2 "error" "$roux" check .
refuses 2 "check: RECIPE [KEY=VALUE]... is missing" "$roux" check
sed 's/max_steps: 2/max_steps: two/; s/  vocab_size/  vocabsize/' recipe.yaml >wrong.yaml
wants 2 "wrong.yaml:2:" "$roux" check wrong.yaml
grep -q "^wrong.yaml:10:3: error: " out || die "the second finding is not there"

# ---- plan ----
wants 0 "fits: 1 rank here needs" "$roux" plan recipe.yaml
wants 0 "layers.0" "$roux" plan recipe.yaml --program
wants 0 '"fits": true' "$roux" plan recipe.yaml --json --ranks 4 --rank 3
wants 3 "does not fit" "$roux" plan recipe.yaml model.train_batch_size=1000000 model.max_context_width=65536
refuses 2 "--rank is 1, but the job has the ranks 0 to 0" "$roux" plan recipe.yaml --rank 1
refuses 2 "--ranks is '99999999999999999999'" "$roux" plan recipe.yaml --ranks 99999999999999999999
wants 2 "does not divide the 3 ranks" "$roux" plan recipe.yaml --ranks 3 model.tensor_model_parallel_degree=2

# ---- train ----
wants 0 "step 2/2" "$roux" train recipe.yaml
wants 0 "" "$roux" train recipe.yaml --quiet exp_manager.explicit_log_dir=log2
[ ! -s err ] || die "train --quiet says: $(cat err)"
wants 0 '{"step":1,"loss":' "$roux" train recipe.yaml --json exp_manager.explicit_log_dir=log3
[ "$(wc -l <log3/metrics.jsonl)" -ge 2 ] || die "no metrics"
events() { # events FOLDER COMMAND...: the command leaves one event file, in FOLDER
    wants 0 "" "${@:2}" --quiet exp_manager.create_tensorboard_logger=true
    ls "$1"/events.out.tfevents.* >events.txt 2>&1 && [ "$(wc -l <events.txt)" = 1 ] || die "$*: no event file: $(cat events.txt)"
}
events log6 "$roux" train recipe.yaml exp_manager.explicit_log_dir=log6
events tb "$roux" train recipe.yaml exp_manager.explicit_log_dir=log7 exp_manager.summary_writer_kwargs.save_dir=tb
named="exp_manager.explicit_log_dir=null exp_manager.exp_dir=exp exp_manager.name=n exp_manager.version=v"
events exp/n/v "$roux" train recipe.yaml $named
events tb/n/v "$roux" train recipe.yaml $named exp_manager.summary_writer_kwargs="{save_dir: tb, name: other}"
ls log/events* log2/events* 2>/dev/null && die "event files that nobody asked for"
wants 2 "log_dir is not allowed" "$roux" train recipe.yaml exp_manager.create_tensorboard_logger=true exp_manager.summary_writer_kwargs.log_dir=x
wants 2 "absent.yaml" "$roux" train absent.yaml
wants 2 "1 error" "$roux" train recipe.yaml model.hiden_size=3
refuses 4 "nowhere" "$roux" train recipe.yaml model.data.use_synthetic_data=false model.data.train_dir=nowhere
"$roux" train recipe.yaml trainer.max_steps=200 exp_manager.explicit_log_dir=log4 2>&1 | head -1 >/dev/null
[ "$(wc -l <log4/metrics.jsonl)" = 200 ] || die "a reader that went away stopped the training"
wants 2 "leave --ranks out" env OMPI_COMM_WORLD_SIZE=2 "$roux" train recipe.yaml --ranks 2
wants 2 "needs mpirun, which is not there" env PATH=/nonexistent "$roux" train recipe.yaml --ranks 2

# ---- tokenize ----
seq 1 500 >text.txt
wants 0 "order-0 entropy of the held-out bytes: " "$roux" tokenize --bytes text.txt --out data --width 16 --validation 0.1
[ -d data/train ] && [ -d data/val ] || die "tokenize made no folders"
wants 0 "" "$roux" train recipe.yaml --quiet model.data.use_synthetic_data=false model.data.train_dir=data/train exp_manager.explicit_log_dir=log5
refuses 2 "data" "$roux" tokenize --bytes text.txt --out data --width 16
wants 0 "wrote" "$roux" tokenize --bytes text.txt --out data --width 16 --force
refuses 2 "tokenize: --out DIR is missing" "$roux" tokenize --bytes text.txt --width 16
refuses 2 "only --bytes is built" "$roux" tokenize text.txt --out data2 --width 16
refuses 2 "--validation is '1'" "$roux" tokenize --bytes text.txt --out data2 --width 16 --validation 1
refuses 4 "absent.txt" "$roux" tokenize --bytes absent.txt --out data2 --width 16
[ ! -e data2 ] || die "a failed tokenize left its folder"

# ---- keys ----
wants 0 "model.optim.lr" "$roux" keys optim.lr
wants 0 "trainer.max_steps" "$roux" keys 'trainer.*'
wants 0 '"key": "trainer.max_steps"' "$roux" keys --json max_steps
refuses 2 "no key matches 'max_stepz'; did you mean max_steps?" "$roux" keys max_stepz

# ---- probe and generate ----
model=$golden/llama-packed
wants 0 "loss       5.23589" "$roux" probe --model "$model" --batch "$model/case.safetensors" --out probed
[ -s probed ] || die "probe wrote nothing"
wants 0 '"targets": 53' "$roux" probe --model "$model" --batch "$model/case.safetensors" --out probed --json
refuses 2 "probe: --batch FILE is missing" "$roux" probe --model "$model" --out probed2
refuses 2 "--precision is '16'; it takes one of 32|64" "$roux" probe --precision 16
refuses 2 "does not divide the 1 rank" "$roux" probe --model "$model" --batch "$model/case.safetensors" --out probed2 --tensor 2
refuses 4 "input_ids" "$roux" probe --model "$model" --batch "$model/model.safetensors" --out probed2
refuses 4 "config.json" "$roux" probe --model . --batch "$model/case.safetensors" --out probed2
head -c 1000 "$model/case.safetensors" >cut.safetensors
refuses 4 "cut.safetensors" "$roux" probe --model "$model" --batch cut.safetensors --out probed2
refuses 4 "binary.yaml" "$roux" probe --model "$model" --batch binary.yaml --out probed2
[ ! -e probed2 ] || die "a failed probe left a result"
probe=("$roux" probe --model "$model" --batch "$model/case.safetensors")
refuses 2 "--out FILE is missing (or something to look at" "${probe[@]}"
wants 0 "stopped    after node 9" "${probe[@]}" --until layers.0.qkv --dump layers.0.qkv
grep -q "layers.0.qkv F32\[2, 32, " out || die "no value is shown: $(cat out)"
refuses 2 "has no node 9999" "${probe[@]}" --until 9999
wants 0 " layers.1.qkv" "${probe[@]}" --compare scalar
wants 0 " layers.1.qkv" "${probe[@]}" --precision bf16 --compare scalar/64
refuses 2 "'16' is no precision; choose 32, 64 or bf16" "${probe[@]}" --compare scalar/16
wants 0 '"until": 9' "${probe[@]}" --until 9 --dump layers.0.qkv --json
python3 -c 'import json; json.load(open("out"))' || die "--json --dump is no JSON: $(cat out)"
wants 0 "head.learn" "${probe[@]}" --time-ops --trace probe.json
grep -q '"name":"head.learn"' probe.json || die "no trace: $(head -c 500 probe.json)"
wants 0 "a step, averaged over 1:" "$roux" train recipe.yaml --time-ops --trace train.json exp_manager.explicit_log_dir=log7
grep -q "^adamw " err || die "no time of adamw: $(cat err)"
grep -q '"cat":"update"' train.json || die "no trace of update"
refuses 5 "absent/t.json: cannot be opened" "$roux" train recipe.yaml --trace absent/t.json exp_manager.explicit_log_dir=log8
# Cores that are too few, or stay idle, are named with the remedy; a family that is not here, and memory that is not, refused.
log() { echo "exp_manager.explicit_log_dir=log$1"; }
cores=$(env -u OMP_NUM_THREADS nproc) machine=$(getconf _NPROCESSORS_ONLN)
wants 0 "$((cores + 1)) threads on $cores core" "$roux" train recipe.yaml trainer.threads=$((cores + 1)) "$(log 9)"
grep -q "take turns; trainer.threads=$cores (or OMP_NUM_THREADS) is faster" err || die "no remedy: $(cat err)"
if [ "$machine" -gt 1 ]; then
    wants 0 "$((machine - 1)) of this machine's $machine cores stay idle: this process may use 1; with mpirun, --bind-to none" \
        taskset -c "$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')" "$roux" train recipe.yaml "$(log 10)"
    grep -q "on cores [0-9]*$" err || die "the core is not named: $(cat err)"
fi
if [ "$cores" = "$machine" ] && [ "$cores" -gt 1 ]; then
    wants 0 "cores stay idle: OMP_NUM_THREADS asks for 1 thread" env OMP_NUM_THREADS=1 "$roux" train recipe.yaml trainer.threads=0 "$(log 11)"
fi
wants 0 "kernels scalar, 1 rank x 1 thread on cores" env ROUX_ISA=scalar "$roux" train recipe.yaml "$(log 12)"
refuses 2 "ROUX_ISA: 'mmx' is no kernel family that this processor runs; choose scalar" env ROUX_ISA=mmx "$roux" train recipe.yaml "$(log 13)"
refuses 3 "of memory each, but only" "$roux" train recipe.yaml model.hidden_size=16384 model.num_hidden_layers=200 "$(log 14)"
[ ! -e log14 ] || die "a run that does not fit left a folder"
wants 0 "109 17 109 109 23 50 51 58 71 109 23 83" "$roux" generate --model "$model" --prompt-ids "61 78, 50 29 32" --ids --max-new-tokens 12
[ "$(cat out)" = "109 17 109 109 23 50 51 58 71 109 23 83" ] || die "generate --ids prints more than ids: $(cat out)"
refuses 2 "give one of --prompt TEXT and --prompt-ids IDS" "$roux" generate --model "$model"
refuses 2 "not both" "$roux" generate --model "$model" --prompt a --prompt-ids 1
refuses 2 "'x' is not a token id" "$roux" generate --model "$model" --prompt-ids "1 x"
refuses 2 "is 112, which is not an id" "$roux" generate --model "$model" --prompt-ids "1 112"
refuses 2 "'99999999999999999999' is not a token id" "$roux" generate --model "$model" --prompt-ids 99999999999999999999
refuses 2 "the prompt is empty" "$roux" generate --model "$model" --prompt-ids ""
refuses 2 "max_position_embeddings" "$roux" generate --model "$model" --prompt-ids "$(seq -s ' ' 1 100) $(seq -s ' ' 1 100) $(seq -s ' ' 1 100)"
refuses 2 "--temperature is '-1'" "$roux" generate --model "$model" --prompt-ids 1 --temperature -1

# ---- output that cannot be written, or that nobody reads ----
if [ -w /dev/full ]; then
    code=0
    "$roux" keys >/dev/full 2>err || code=$?
    [ "$code" = 5 ] && grep -q "roux: error: standard output: No space left" err || die "a full device gives $code: $(cat err)"
fi
"$roux" keys 2>err | head -1 >/dev/null
[ ! -s err ] || die "a closed pipe is no reason to speak: $(cat err)"
(trap '' PIPE; "$roux" keys 2>err | head -1 >/dev/null)
[ ! -s err ] || die "a closed pipe is no reason to speak: $(cat err)"
"$roux" train recipe.yaml --json exp_manager.explicit_log_dir=piped trainer.max_steps=300 2>err | true
[ "${PIPESTATUS[0]}" = 0 ] || die "a reader that goes away ends a training run: $(tail -1 err)"
# What is closed must not be found again under the number of a file that the run writes.
code=0
"$roux" train recipe.yaml --json exp_manager.explicit_log_dir=mute >&- 2>&- || code=$?
[ "$code" = 5 ] || die "a closed output gives $code"
[ "$(grep -c '^{"step":' mute/metrics.jsonl)" = "$(wc -l <mute/metrics.jsonl)" ] || die "what was said is in metrics.jsonl"

[ "$failed" = 0 ] && echo PASS
exit "$failed"
