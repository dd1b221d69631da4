#!/usr/bin/env python3
"""Write the rotary tables that Hugging Face transformers computes for some configs, as reference data.

  python tools/make_rope_tables.py --out tests/golden/rope

needs torch (the CPU is enough), transformers 5 and safetensors. In the folder given by --out it writes

cases.json           case name -> {"head_dim", "max_position_embeddings", "rope_parameters"}, as a config.json has them
tables.safetensors
  positions          [P]                 int32   the positions of every table's rows
  <case>.inv_freq    [head_dim/2]        f32     inverse frequencies
  <case>.cos_sin     [P, head_dim]       f32     at each position head_dim/2 cosines, then head_dim/2 sines, both
                                                 times the case's attention factor, as the model uses them

The last bit of a few inverse frequencies can depend on the processor: with AVX2 or AVX-512 torch takes powers with
vector code of its own, which does not always round as the C library's powf does.
"""
import argparse, copy, json, os
import torch
from safetensors.torch import save_file
import transformers
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

POSITIONS = [*range(64), 127, 128, 500, 1000, 4095, 4096, 10000, 32767, 32768, 40959, 131071]


def case(rope_type, rope_theta, head_dim=128, max_position_embeddings=131072, **rope):
    return {"head_dim": head_dim, "max_position_embeddings": max_position_embeddings,
            "rope_parameters": {"rope_type": rope_type, "rope_theta": rope_theta, **rope}}


QWEN3 = dict(factor=4.0, original_max_position_embeddings=32768)
LLAMA3 = dict(low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
CASES = {
    "default-1e4": case("default", 1e4),
    "default-1e6": case("default", 1e6),
    "default-5e6-dim64": case("default", 5e6, head_dim=64),
    "default-5e5": case("default", 5e5),
    "linear-4": case("linear", 1e4, max_position_embeddings=4096, factor=4.0),
    "yarn-qwen3": case("yarn", 1e6, **QWEN3),
    "yarn-qwen3-max40960": case("yarn", 1e6, max_position_embeddings=40960, **QWEN3),
    "yarn-attention-factor": case("yarn", 1e6, **QWEN3, attention_factor=1.5),
    "yarn-betas": case("yarn", 1e6, **QWEN3, beta_fast=16.0, beta_slow=2.0),
    "yarn-no-truncate": case("yarn", 1e4, head_dim=64, max_position_embeddings=32768, factor=8.0,
                             original_max_position_embeddings=4096, truncate=False),
    "yarn-mscale": case("yarn", 1e4, head_dim=64, max_position_embeddings=163840, factor=40.0,
                        original_max_position_embeddings=4096, mscale=0.707, mscale_all_dim=0.5),
    "yarn-no-original": case("yarn", 1e6, max_position_embeddings=32768, factor=2.0),
    "llama3-8": case("llama3", 5e5, **LLAMA3, factor=8.0),
    "llama3-32-dim64": case("llama3", 5e5, head_dim=64, **LLAMA3, factor=32.0),
}


def main():
    ap = argparse.ArgumentParser(); ap.add_argument("--out", required=True); a = ap.parse_args()
    print("transformers", transformers.__version__, "torch", torch.__version__)
    positions = torch.tensor(POSITIONS, dtype=torch.int32)
    tables = {"positions": positions}
    for name, c in CASES.items():
        half = c["head_dim"] // 2
        # The config fills in its defaults in the very dict that it is given: give it a copy.
        config = LlamaConfig(hidden_size=4 * c["head_dim"], num_attention_heads=4, **copy.deepcopy(c))
        rotary = LlamaRotaryEmbedding(config)
        cos, sin = rotary(torch.zeros(1, dtype=torch.float32), positions[None])
        tables[name + ".inv_freq"] = rotary.inv_freq.clone()
        # Both halves of the last dimension are the same.
        tables[name + ".cos_sin"] = torch.cat((cos[0, :, :half], sin[0, :, :half]), dim=-1).contiguous()
        print(name, "attention factor", rotary.attention_scaling)
    assert all(t.dtype in (torch.float32, torch.int32) for t in tables.values())
    os.makedirs(a.out, exist_ok=True)
    save_file(tables, os.path.join(a.out, "tables.safetensors"))
    with open(os.path.join(a.out, "cases.json"), "w") as f:
        json.dump(CASES, f, indent=2)
        f.write("\n")


if __name__ == "__main__":
    main()
