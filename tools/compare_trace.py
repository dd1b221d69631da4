#!/usr/bin/env python3
"""Compare a forward of `nanovllm inspect MODEL --trace PROMPT --save trace.safetensors` with Hugging Face transformers, step by step.

usage: compare_trace.py MODEL trace.safetensors [--bound 2e-5]

Runs the same prompt ids through transformers in float32 and prints, for each step, the largest difference as a share of the largest
value; exit code 1 and the name of the first step whose share is above the bound. Stacked products are compared with transformers' products
side by side; q and k after norm and RoPE with its own function of that. Needs torch, transformers and safetensors.
"""
import argparse
import importlib
import sys


def watch_rope(model, keep):
    """keep(q, k) with what the model's own apply_rotary_pos_emb gives, layer after layer."""
    module = importlib.import_module(type(model).__module__)
    apply = module.apply_rotary_pos_emb

    def watched(q, k, *arguments, **keywords):
        turned = apply(q, k, *arguments, **keywords)
        keep(*turned)
        return turned
    module.apply_rotary_pos_emb = watched


def capture(model, ids):
    """{our name: what transformers' module gave, [num_tokens, width]} in the order of the forward."""
    import torch
    seen, layer_of_rope = {}, iter(range(len(model.model.layers)))

    def keep_turned(q, k):  # [1, heads, num_tokens, head_dim]
        prefix = f"model.layers.{next(layer_of_rope)}.self_attn."
        for name, heads in (("q", q), ("k", k)):
            seen[prefix + name] = heads[0].transpose(0, 1).float().reshape(ids.shape[1], -1)
    watch_rope(model, keep_turned)

    def keep_part(name):  # parts come one after the other, and stand side by side
        def hook(module, inputs, output):
            part = output[0].float()
            seen[name] = torch.cat([seen[name], part], dim=1) if name in seen else part
        return hook

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
        for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
            projection.register_forward_hook(keep_part(prefix + "self_attn.qkv_proj"))
        layer.self_attn.o_proj.register_forward_pre_hook(keep_input(prefix + "self_attn.attn"), with_kwargs=True)
        layer.self_attn.o_proj.register_forward_hook(keep(prefix + "self_attn.o_proj"))
        layer.post_attention_layernorm.register_forward_hook(keep(prefix + "post_attention_layernorm"))
        for projection in (layer.mlp.gate_proj, layer.mlp.up_proj):
            projection.register_forward_hook(keep_part(prefix + "mlp.gate_up_proj"))
        layer.mlp.down_proj.register_forward_pre_hook(keep_input(prefix + "mlp.act_fn"), with_kwargs=True)
        layer.mlp.down_proj.register_forward_hook(keep(prefix + "mlp.down_proj"))
    model.model.norm.register_forward_hook(keep("model.norm"))
    with torch.no_grad():
        seen["logits"] = model(ids, use_cache=False).logits[0].float()
    return seen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("trace")
    parser.add_argument("--bound", type=float, default=2e-5)
    options = parser.parse_args()
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM
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
