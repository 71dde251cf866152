#!/usr/bin/env python3
"""check_tensorboard.py FOLDER METRICS EVERY: what TensorBoard reads from FOLDER is what METRICS (metrics.jsonl) says.

Training scalars stand at steps that EVERY divides, validations at every one but that before training; the x is the
step less one. Values are float32. No tag and no value may be missing or too many.
"""
import json
import math
import struct
import sys

from tensorboard.backend.event_processing import event_accumulator

STEP = {"Loss/train": "loss", "Norms/grad_norm": "grad_norm", "LR/learning_rate": "next_lr", "Step Time": "step_time",
        "Samples/Second": "samples_per_second", "TFLOPS/GPU": "tflops_per_device"}
VALIDATION = {"Loss/val": "val_loss", "Loss/perplexity": "perplexity"}


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def wanted(path, every):
    out, steps = {}, []
    for line in open(path):
        o = json.loads(line)
        tags = VALIDATION if "val_loss" in o else STEP
        if o["step"] == 0 or (tags is STEP and o["step"] % every != 0):
            continue
        steps.append(o["step"] - 1)
        for tag, key in tags.items():
            out.setdefault(tag, []).append((o["step"] - 1, float32(o[key])))
    return out, steps


def main():
    folder, metrics, every = sys.argv[1:]
    reader = event_accumulator.EventAccumulator(folder, size_guidance={event_accumulator.SCALARS: 0})
    reader.Reload()
    want, steps = wanted(metrics, int(every))
    got = {tag: [(e.step, e.value) for e in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}
    epochs = got.pop("epoch", [])
    if got != want:
        for tag in sorted(set(got) | set(want)):
            if got.get(tag) != want.get(tag):
                print(f"{folder}: {tag}: read {got.get(tag)}, metrics.jsonl has {want.get(tag)}")
        sys.exit(1)
    if [step for step, _ in epochs] != steps or any(not math.isfinite(v) or v < 0 or v != int(v) for _, v in epochs):
        sys.exit(f"{folder}: epoch: {epochs} at steps {steps}")
    print(f"{folder}: {sum(map(len, got.values())) + len(epochs)} values of {len(got) + 1} tags are read as written")


if __name__ == "__main__":
    main()
