"""Compares model folders as transformers sees them with what `roux probe` computes. Called by run.sh."""

import argparse
import glob
import json
import os
import subprocess
import sys

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.overrides import TorchFunctionMode
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
from transformers.utils.logging import disable_progress_bar

# Largest difference / largest entry. Double: both sides are exact but for the order of sums.
TOLERANCE = {
    "64": {"logits": 1e-11, "loss": 1e-12, "grad": 1e-10},
    "32": {"logits": 3e-5, "loss": 1e-6, "grad": 3e-5},
}
PRECISIONS = {"64": torch.float64, "32": torch.float32}


class InDouble(TorchFunctionMode):
    """Double where transformers asks for float32 by name: norms, softmax, rotary tables, loss."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        def widen(value):
            return torch.float64 if value is torch.float32 else value

        if func is torch.Tensor.float:
            return args[0].double()
        args = tuple(widen(value) for value in args)
        kwargs = {key: widen(value) for key, value in (kwargs or {}).items()}
        return func(*args, **kwargs)


class Check:
    def __init__(self):
        self.passed = self.failed = 0

    def __call__(self, name, good, detail=""):
        print(f"{'pass' if good else 'FAIL'} {name}{': ' if detail else ''}{detail}", flush=True)
        if good:
            self.passed += 1
        else:
            self.failed += 1


def check_files(check, folder):
    """safetensors reads every file; config.json and the tensors agree on the type."""
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    wanted = config.get("dtype", config.get("torch_dtype"))
    names, total = set(), 0
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        with safe_open(path, framework="pt") as f:
            assert f.metadata() == {"format": "pt"}, f.metadata()
            for name in f.keys():
                tensor = f.get_tensor(name)
                assert name not in names, name
                assert str(tensor.dtype) == f"torch.{wanted}", (name, tensor.dtype)
                names.add(name)
                total += tensor.numel() * tensor.element_size()
    index = os.path.join(folder, "model.safetensors.index.json")
    if os.path.exists(index):
        with open(index) as f:
            content = json.load(f)
        assert set(content["weight_map"]) == names
        assert content["metadata"]["total_size"] == total
    assert names
    check(f"{folder} safetensors", True, f"{len(names)} tensors, {total} bytes of {wanted}")


def load(check, folder, dtype):
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", output_loading_info=True
    )
    odd = {key: sorted(map(str, value)) for key, value in info.items() if value}
    check(f"{folder} loads in {dtype}", not odd, str(odd) if odd else type(model).__name__)
    model.eval()
    if dtype is torch.float64:
        # Its frequencies were made in float32 while the model was built.
        with InDouble():
            model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    return model


def make_batch(vocabulary, rows=3, width=29):
    """Rows of random tokens, one padded, one without any target."""
    random = torch.Generator().manual_seed(7)
    ids = torch.randint(0, vocabulary, (rows, width), generator=random)
    labels = ids.clone()
    labels[0, 5:9] = -100
    ids[1, width // 2 :] = 0
    labels[1, width // 2 :] = -100
    labels[2] = -100
    return {"input_ids": ids, "labels": labels}


def reference(model, batch, dtype):
    model.zero_grad()
    if dtype is torch.float64:
        with InDouble():
            out = model(**batch, use_cache=False)
            out.loss.backward()
    else:
        out = model(**batch, use_cache=False)
        out.loss.backward()
    result = {"logits": out.logits.detach(), "loss": out.loss.detach().reshape(1)}
    for name, weight in model.named_parameters():
        result["grad." + name] = weight.grad
    return result


def compare(check, title, ours, theirs, tolerance):
    if set(ours) != set(theirs):
        check(title, False, f"names differ: {sorted(set(ours) ^ set(theirs))}")
        return
    worst = {}
    for name, wanted in theirs.items():
        kind = name.split(".")[0]
        found = ours[name].double()
        if found.shape != wanted.shape:
            check(title, False, f"{name} is {tuple(found.shape)}, expected {tuple(wanted.shape)}")
            return
        largest = wanted.double().abs().max().item()
        apart = (found - wanted.double()).abs().max().item()
        apart = apart / largest if largest > 0 else (0.0 if apart == 0 else float("inf"))
        worst[kind] = max(worst.get(kind, (0.0, name)), (apart, name))
    for kind, (apart, name) in sorted(worst.items()):
        check(f"{title} {kind}", apart <= tolerance[kind], f"{apart:.2e} ({name}), allowed {tolerance[kind]:.0e}")


def check_numbers(check, folder, roux, work):
    config = AutoConfig.from_pretrained(folder)
    GenerationConfig.from_pretrained(folder)
    batch = make_batch(config.vocab_size)
    batch_path = os.path.join(work, "batch.safetensors")
    save_file(batch, batch_path)
    for precision, dtype in PRECISIONS.items():
        out = os.path.join(work, f"probe.{precision}.safetensors")
        subprocess.run(
            [roux, "probe", "--model", folder, "--batch", batch_path, "--out", out, "--precision", precision, "--quiet"],
            check=True,
        )
        theirs = reference(load(check, folder, dtype), batch, dtype)
        compare(check, f"{folder} in {precision}", load_file(out), theirs, TOLERANCE[precision])


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--roux", required=True)
    arguments.add_argument("--work", required=True)
    arguments.add_argument("folders", nargs="+")
    given = arguments.parse_args()
    check = Check()
    disable_progress_bar()
    torch.set_num_threads(1)
    for folder in given.folders:
        check_files(check, folder)
        check_numbers(check, folder, given.roux, given.work)
    print(f"{check.passed} passed, {check.failed} failed")
    return 1 if check.failed or not check.passed else 0


if __name__ == "__main__":
    sys.exit(main())
