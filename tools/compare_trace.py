#!/usr/bin/env python3
"""Compare a forward of `nanovllm inspect MODEL --trace PROMPT --save trace.safetensors` with Hugging Face transformers, step by step.

usage: compare_trace.py MODEL trace.safetensors [--bound 2e-5]

Runs the same prompt ids through transformers in float32 and prints, for each step, the largest difference as a share of the largest
value; exit code 1 and the name of the first step whose share is above the bound. Stacked products, q and k after RoPE are not compared:
transformers has no module that gives them. Needs torch, transformers and safetensors.
"""
import argparse
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM


def capture(model, ids):
    """{our name: what transformers' module gave, [num_tokens, width]} in the order of the forward."""
    seen = {}

    def keep(name, pick=lambda output: output):
        def hook(module, inputs, output):
            seen[name] = pick(output)[0].float().reshape(ids.shape[1], -1)
        return hook

    def keep_input(name):
        def hook(module, arguments, keywords):
            hidden = arguments[0] if arguments else keywords["hidden_states"]
            seen[name] = hidden[0].float().reshape(ids.shape[1], -1)
        return hook

    for i, layer in enumerate(model.model.layers):
        prefix = f"model.layers.{i}."
        layer.register_forward_pre_hook(keep_input(prefix + "residual"), with_kwargs=True)
        layer.input_layernorm.register_forward_hook(keep(prefix + "input_layernorm"))
        layer.self_attn.o_proj.register_forward_pre_hook(keep_input(prefix + "self_attn.attn"), with_kwargs=True)
        layer.self_attn.o_proj.register_forward_hook(keep(prefix + "self_attn.o_proj"))
        layer.post_attention_layernorm.register_forward_hook(keep(prefix + "post_attention_layernorm"))
        layer.mlp.down_proj.register_forward_pre_hook(keep_input(prefix + "mlp.act_fn"), with_kwargs=True)
        layer.mlp.down_proj.register_forward_hook(keep(prefix + "mlp.down_proj"))
    model.model.norm.register_forward_hook(keep("model.norm"))
    with torch.no_grad():
        seen["logits"] = model(ids, use_cache=False).logits[0].float()
    return seen


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("trace")
    parser.add_argument("--bound", type=float, default=2e-5)
    options = parser.parse_args()
    trace = load_file(options.trace)
    ids = trace.pop("prompt_ids").long()[None]
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32, attn_implementation="eager").eval()
    first, num_compared = None, 0
    for name, want in capture(model, ids).items():
        if name not in trace:
            continue
        got = trace[name].reshape(trace[name].shape[0], -1)
        want = want[-got.shape[0]:]  # the last norm and the logits are of the last token only
        if got.shape != want.shape:
            sys.exit(f"{name} is {list(got.shape)}, want {list(want.shape)}: a trace of one rank, of this model")
        share = float((got - want).abs().max() / max(float(want.abs().max()), 1e-30))
        num_compared += 1
        print(f"{name:46s} {share:.2e}")
        if first is None and not share <= options.bound:
            first = name
    if first:
        print(f"{first} is the first step that differs by more than {options.bound:g}")
        sys.exit(1)
    if num_compared == 0:
        sys.exit("the trace has no step that transformers has, want one of this model's family")
    print(f"none of {num_compared} steps differs by more than {options.bound:g}")


if __name__ == "__main__":
    main()
