#!/usr/bin/env python3
"""The same training step as a recipe of bench/configs, in PyTorch: torch_llama.py RECIPE [options]

Reads the shapes from the recipe that roux trains, prints "step N SECONDS LOSS" at the end of each step. A step is what a
user's loop does: forward, loss, backward, AdamW, loss.item(). Weights and moments are float32; --dtype bf16 is autocast,
which keeps them so, as our precision bf16 does. --dtype bf16-weights rounds the weights too (another training; for a look).
"""
import argparse
import re
import time

import torch
import torch.nn.functional as F
from torch import nn


def recipe_numbers(path):
    """Every `key: number` of a recipe; the keys that matter here are unique in it."""
    numbers = {}
    with open(path) as lines:
        for line in lines:
            found = re.match(r"\s*(\w+):\s*([0-9.]+)\s*$", line)
            if found:
                numbers[found[1]] = float(found[2])
    return numbers


class Gain(nn.Module):
    """RMSNorm as Llama has it: the mean square in float32."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), 1e-5)


def turn(x, cos, sin):
    """Rotates the halves of each head of x [B, H, S, d]."""
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1).to(x.dtype)


class Layer(nn.Module):
    def __init__(self, width, heads, groups, inner):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.before_attention, self.before_mlp = Gain(width), Gain(width)
        self.qkv = nn.Linear(width, (heads + 2 * groups) * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate_up = nn.Linear(width, 2 * inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        parts = self.qkv(self.before_attention(x)).view(batch, length, -1, self.size).transpose(1, 2)
        q, k, v = parts.split((self.heads, self.groups, self.groups), 1)
        q, k = turn(q, cos, sin), turn(k, cos, sin)
        if self.groups != self.heads:
            k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        gate, up = self.gate_up(self.before_mlp(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        width, heads, length = (int(n[k]) for k in ("hidden_size", "num_attention_heads", "max_context_width"))
        groups, inner = int(n["num_key_value_heads"]), int(n["intermediate_size"])
        self.embed = nn.Embedding(int(n["vocab_size"]), width)
        self.layers = nn.ModuleList(Layer(width, heads, groups, inner) for _ in range(int(n["num_hidden_layers"])))
        self.final = Gain(width)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)
        size = width // heads
        speeds = n.get("rope_theta", 10000.0) ** (-torch.arange(0, size, 2) / size)
        angles = torch.outer(torch.arange(length), speeds)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids, targets):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = F.linear(self.final(x), self.embed.weight)  # tied
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def main():
    options = argparse.ArgumentParser()
    options.add_argument("recipe")
    options.add_argument("--steps", type=int, default=8)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--dtype", default="fp32", choices=("fp32", "bf16", "bf16-weights"))
    options.add_argument("--mode", default="eager", choices=("eager", "compiled"))
    options.add_argument("--adamw", default="fused", choices=("fused", "foreach"))
    o = options.parse_args()
    n = recipe_numbers(o.recipe)
    batch, length = int(n["train_batch_size"]), int(n["max_context_width"])

    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    model = Model(n)
    if o.dtype == "bf16-weights":
        model = model.to(torch.bfloat16)
    adamw = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, **{o.adamw: True})
    forward = torch.compile(model) if o.mode == "compiled" else model
    for step in range(1, o.steps + 1):
        ids = torch.randint(0, int(n["vocab_size"]), (batch, length + 1))
        start = time.monotonic()
        with torch.autocast("cpu", torch.bfloat16, enabled=o.dtype == "bf16"):
            loss = forward(ids[:, :-1], ids[:, 1:])
        loss.backward()
        adamw.step()
        adamw.zero_grad(set_to_none=True)
        value = loss.item()
        print(f"step {step} {time.monotonic() - start:.6f} {value:.4f}", flush=True)


if __name__ == "__main__":
    main()
