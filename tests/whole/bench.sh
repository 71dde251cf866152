#!/usr/bin/env bash
# roux bench and what plan and train make of it: sections, calibration (made, damaged, of another machine), estimates.
set -uo pipefail
roux=$ROUX_PROGRAM
work=$(mktemp -d "${TMPDIR:-/tmp}/roux-bench-XXXXXX")
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache OMP_NUM_THREADS=1
kept=$XDG_CACHE_HOME/roux/calibration.json
cd "$work" || exit 1
failed=0

die() { echo "FAIL: $*"; failed=1; }

# wants CODE PART COMMAND...: exit code, and PART somewhere in what it says.
wants() {
    local code=$1 part=$2 got=0
    shift 2
    "$@" >out 2>err </dev/null || got=$?
    [ "$got" = "$code" ] || die "$*: exit code $got, not $code: $(cat err)"
    grep -qF -- "$part" out err || die "$*: nothing says '$part': $(head -c 2000 out err)"
}

cat >recipe.yaml <<'END'
distributed_backend: alone
trainer: { accelerator: cpu, devices: 1, precision: 32, max_steps: 5, log_every_n_steps: 1 }
exp_manager:
  explicit_log_dir: log
  export_full_model: { save_last: false }
  checkpoint_callback_params: { save_last: false, every_n_train_steps: 0 }
model:
  do_finetune: false
  fp8: false
  activation_checkpointing: false
  vocab_size: 256
  hidden_size: 64
  intermediate_size: 128
  num_hidden_layers: 2
  num_attention_heads: 2
  num_key_value_heads: 1
  max_context_width: 64
  train_batch_size: 2
  activation_loading_horizon: 1
  optim: { lr: 0.003, sched: { warmup_steps: 1, min_lr: 0.0003 } }
  data: { use_synthetic_data: true }
END

# ---- without a calibration ----
wants 0 "there is no calibration of this machine; \`roux bench --calibrate\` makes one" "$roux" plan recipe.yaml
wants 0 "with model.activation_checkpointing=true: temporaries " "$roux" plan recipe.yaml
grep -q "with model.activation_checkpointing=true: .* instead of .*, +[0-9.]* % computation$" out || die "no cost: $(cat out)"
wants 0 "with model.activation_checkpointing=false: temporaries " "$roux" plan recipe.yaml model.activation_checkpointing=true
grep -q ", -[0-9.]* % computation$" out || die "no saving: $(cat out)"
wants 0 '"state": "absent"' "$roux" plan recipe.yaml --json

# ---- sections ----
wants 0 "all of it, one by one" "$roux" bench recipe.yaml --quick
for part in "floating point, GFLOP/s" "  scalar " "memory, GB/s" "  triad " "disk at ." "  write " "GFLOP/s of the model" \
    "  attention.d " "  adamw "; do
    grep -qF -- "$part" out || die "bench has no '$part'"
done
[ "$(find . -name 'roux-bench-*' | wc -l)" = 0 ] || die "bench left a file"
wants 0 "floating point" "$roux" bench --quick --only peaks
! grep -q "memory\|disk\|a step takes" out || die "--only peaks says more: $(cat out)"
wants 0 '"peak_share"' "$roux" bench --quick --only step --json
python3 -c 'import json; s = json.load(open("out"))["step"]; assert s["seconds"] > 0 and 0 < s["peak_share"] < 10, s' ||
    die "the step as JSON: $(cat out)"
wants 2 "one rank sends no messages; add --ranks 2" "$roux" bench --only messages
wants 5 "absent: no file can be made there" "$roux" bench --quick --only disk --folder absent
wants 2 "none.yaml: error" "$roux" bench none.yaml --quick --only step
[ ! -e "$kept" ] || die "a calibration was written unasked"

# ---- made, used, damaged, another machine's ----
wants 0 "kept in $kept" "$roux" bench --calibrate recipe.yaml --quick
wants 0 "tokens/s)" "$roux" plan recipe.yaml
grep -qE "^ +to max_steps " out || die "no time to max_steps: $(cat out)"
grep -qE "instead of .*, \+[0-9.]+ % computation, [+-][0-9.]+ % time$" out || die "no time of checkpointing: $(cat out)"
wants 0 '"state": "fits"' "$roux" plan recipe.yaml --json
python3 - <<'END' || die "the estimate as JSON: $(cat out)"
import json
t = json.load(open("out"))["time"]
assert abs(sum(t["seconds_by_kind"].values()) - t["seconds_step"]) < 1e-9 * t["seconds_step"]
assert abs(t["seconds_to_max_steps"] - 5 * t["seconds_step"]) < 1e-9
assert abs(t["tokens_per_second"] * t["seconds_step"] - 128) < 1e-6
END
wants 0 "is not for this run (precision 32, here 64); \`roux bench --calibrate\` makes one" \
    "$roux" plan recipe.yaml trainer.precision=64
wants 0 "threads 1, here 2" "$roux" plan recipe.yaml trainer.threads=2
sed -i 's/"cpu": "/"cpu": "Other /' "$kept"
wants 0 "is not for this run (processor Other " "$roux" plan recipe.yaml
! grep -q "tokens/s)" out || die "a calibration of another machine was used"
echo '{' >"$kept"
wants 0 "calibration.json:2: " "$roux" plan recipe.yaml
grep -q " warning: .*no time is estimated" err || die "no warning of the damaged file: $(cat err)"
grep -qF "is damaged; \`roux bench --calibrate\` makes one" out || die "plan hides the damaged file: $(cat out)"
sed "s/precision: 32/precision: 32, threads: 2/" recipe.yaml >twin.yaml
wants 2 "calibrate them one by one" "$roux" bench --calibrate recipe.yaml twin.yaml --quick

# ---- train ----
wants 0 "% of peak)" "$roux" train recipe.yaml
python3 - <<'END' || die "metrics: $(cat log/metrics.jsonl)"
import json
lines = [json.loads(l) for l in open("log/metrics.jsonl")]
assert len(lines) == 5
# 6 x (2 layers x (64 x 128 + 64 x 64 + 3 x 64 x 128) + 64 x 256), attention 12 x 2 x 32.5 x 64
token = 6 * (2 * (64 * 128 + 64 * 64 + 3 * 64 * 128) + 64 * 256) + 12 * 2 * 32.5 * 64
for l in lines:
    assert abs(l["model_flops_per_second"] / l["tokens_per_second"] / token - 1) < 1e-9, l
    assert 0 < l["peak_share"] < 10, l
    assert list(l).index("peak_share") > list(l).index("seconds")  # comparisons cut lines there
END

# ---- ranks ----
if command -v mpirun >/dev/null && [ -e "$(dirname "$roux")/roux-mpi.so" ]; then
    wants 0 "messages between 2 ranks" "$roux" bench --ranks 2 --quick
    grep -q "all-reduce" out || die "no messages: $(cat out)"
fi
exit "$failed"
