#!/usr/bin/env python3
"""How far transformers itself is from float32 when it computes a reference model in the model's own 16-bit type.

usage: transformers_dtype_error.py [--device cuda] MODEL...

Prints for each folder of tests/golden the largest difference of its logits from reference.safetensors, as a share of the largest logit: the
yardstick for our own bf16 and f16 bounds (tests/models/golden_test.cpp). Needs torch, transformers and safetensors.
"""
import argparse
import pathlib


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM
    for folder in options.models:
        reference = load_file(folder / "reference.safetensors")
        model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", attn_implementation="eager").eval().to(options.device)
        ids = reference["prompt_ids"].long()[None].to(options.device)
        with torch.no_grad():
            logits = model(ids, use_cache=False).logits[0].float().cpu()
        want = reference["logits"]
        print(f"{folder.name:28s} {str(model.dtype):16s} {float((logits - want).abs().max() / want.abs().max()):.2e}")


if __name__ == "__main__":
    main()
