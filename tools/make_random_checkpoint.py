#!/usr/bin/env python3
"""Write a Hugging Face folder of a Qwen3 model with random weights: for benchmarks and for tests of size.

    tools/make_random_checkpoint.py OUT --preset 0.6b [--dtype bf16] [--seed 0] [--shard-size 500MB] [--tokenizer DIR]

The shapes, names and config.json are those of the real model; the values are those of one just initialised:
normal(0, 0.02) for matrices, 1 + normal(0, 0.02) for norm weights. It says nothing sensible, at the real model's speed.
Every dimension of a preset can be overridden by its flag. No tokenizer is made (run with token ids, or --tokenizer DIR
copies one).

With numpy (Debian: python3-numpy) every value is a draw of its own. Without numpy, values repeat: a table of 524,287
normal numbers is drawn once, and each tensor is that table end to end, begun at a random place of its own. The length is
a prime, so no two rows of a matrix are alike, but each is a shifted piece of others; that matters to nothing that only
measures time. The same seed gives other values than with numpy. The last line printed says which it was.
"""
import argparse
import json
import os
import random
import shutil
import struct
import time

try:
    import numpy
except ImportError:
    numpy = None

SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
         "intermediate_size", "vocab_size", "max_position_embeddings")
#            hidden layers heads kv_heads head_dim intermediate vocab positions tied
PRESETS = {
    "tiny": (64,    3,     4,    2,       32,      160,         320,    512,    True),
    "0.6b": (1024,  28,    16,   8,       128,     3072,        151936, 40960,  True),
    "1.7b": (2048,  28,    16,   8,       128,     6144,        151936, 40960,  True),
    "4b":   (2560,  36,    32,   8,       128,     9728,        151936, 40960,  True),
    "8b":   (4096,  36,    32,   8,       128,     12288,       151936, 40960,  False),
}
DTYPES = {"bf16": ("BF16", "bfloat16", 2), "f16": ("F16", "float16", 2), "f32": ("F32", "float32", 4)}
STD = 0.02
TABLE_SIZE = (1 << 19) - 1  # a prime; values in the table that replaces numpy
CHUNK = 1 << 22             # values drawn and written at a time with numpy


def shapes(c):
    """Name and shape of every parameter, in the order of the model."""
    hidden, inter, dim = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * dim, c["num_key_value_heads"] * dim
    yield "model.embed_tokens.weight", [c["vocab_size"], hidden]
    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", [hidden]
        yield layer + "self_attn.q_proj.weight", [q, hidden]
        yield layer + "self_attn.k_proj.weight", [kv, hidden]
        yield layer + "self_attn.v_proj.weight", [kv, hidden]
        yield layer + "self_attn.q_norm.weight", [dim]
        yield layer + "self_attn.k_norm.weight", [dim]
        yield layer + "self_attn.o_proj.weight", [hidden, q]
        yield layer + "post_attention_layernorm.weight", [hidden]
        yield layer + "mlp.gate_proj.weight", [inter, hidden]
        yield layer + "mlp.up_proj.weight", [inter, hidden]
        yield layer + "mlp.down_proj.weight", [hidden, inter]
    yield "model.norm.weight", [hidden]
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", [c["vocab_size"], hidden]


def num_elements(shape):
    count = 1
    for dim in shape:
        count *= dim
    return count


class NumpyValues:
    """Independent draws; a tensor's values depend on the seed and its place in the model only."""

    def __init__(self, dtype, seed):
        self.dtype, self.seed = dtype, seed

    def chunks(self, index, count, mean):
        generator = numpy.random.Generator(numpy.random.SFC64([self.seed, index]))
        for begin in range(0, count, CHUNK):
            values = generator.standard_normal(min(CHUNK, count - begin), dtype=numpy.float32)
            values *= numpy.float32(STD)
            values += numpy.float32(mean)
            yield self.encode(values).data

    def encode(self, values):
        if self.dtype == "f32":
            return values.astype("<f4", copy=False)
        if self.dtype == "f16":
            return values.astype("<f2")
        bits = values.view(numpy.uint32)
        bits += 0x7FFF + (bits >> 16 & 1)  # to the nearest, ties to even
        return (bits >> 16).astype("<u2")


class TableValues:
    """One table of draws for all matrices, begun elsewhere in each; norm weights are few and drawn one by one."""

    def __init__(self, dtype, seed):
        self.dtype, self.seed = dtype, seed
        self.table = self.draw(random.Random(seed), TABLE_SIZE, 0.0)

    def draw(self, generator, count, mean):
        return self.encode([generator.gauss(mean, STD) for _ in range(count)])

    def encode(self, values):
        if self.dtype == "f16":
            return struct.pack(f"<{len(values)}e", *values)
        packed = struct.pack(f"<{len(values)}f", *values)
        if self.dtype == "f32":
            return packed
        bits = struct.unpack(f"<{len(values)}I", packed)
        return struct.pack(f"<{len(values)}H", *[(b + 0x7FFF + (b >> 16 & 1)) >> 16 for b in bits])

    def chunks(self, index, count, mean):
        generator = random.Random(self.seed * 1_000_003 + index)
        if mean:
            yield self.draw(generator, count, mean)
            return
        width = DTYPES[self.dtype][2]
        begin, left = generator.randrange(TABLE_SIZE) * width, count * width
        while left:
            part = memoryview(self.table)[begin:begin + left]
            yield part
            left -= len(part)
            begin = 0


def header_bytes(tensors, dtype):
    """The length and the JSON, padded so that the data is aligned to 8 bytes."""
    name, _, width = DTYPES[dtype]
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for tensor, shape, _ in tensors:
        begin, end = end, end + num_elements(shape) * width
        header[tensor] = {"dtype": name, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def write_file(path, tensors, dtype, values):
    with open(path, "wb") as file:
        file.write(header_bytes(tensors, dtype))
        for name, shape, index in tensors:
            mean = 1.0 if "norm" in name else 0.0
            for chunk in values.chunks(index, num_elements(shape), mean):
                file.write(chunk)


def split(tensors, width, shard_bytes):
    """Tensors in order, as many in a shard as fit; one that is larger is a shard of its own."""
    shards, used = [[]], 0
    for tensor in tensors:
        size = num_elements(tensor[1]) * width
        if shards[-1] and used + size > shard_bytes:
            shards.append([])
            used = 0
        shards[-1].append(tensor)
        used += size
    return shards


def write_weights(folder, c, dtype, seed, shard_bytes):
    width = DTYPES[dtype][2]
    tensors = [(name, shape, index) for index, (name, shape) in enumerate(shapes(c))]
    values = (NumpyValues if numpy else TableValues)(dtype, seed)
    shards = split(tensors, width, shard_bytes) if shard_bytes else [tensors]
    if len(shards) == 1:
        write_file(os.path.join(folder, "model.safetensors"), tensors, dtype, values)
    else:
        weight_map = {}
        for i, shard in enumerate(shards):
            name = f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors"
            write_file(os.path.join(folder, name), shard, dtype, values)
            weight_map.update({tensor[0]: name for tensor in shard})
        total = sum(num_elements(shape) for _, shape, _ in tensors)
        write_json(folder, "model.safetensors.index.json",
                   {"metadata": {"total_parameters": total, "total_size": total * width},
                    "weight_map": dict(sorted(weight_map.items()))})
    return sum(num_elements(shape) for _, shape, _ in tensors)


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(json.dumps(value, indent=2) + "\n")


def token_ids(vocab_size):
    """Where Qwen3 has <|endoftext|> and <|im_end|>; in a smaller vocabulary, its first two ids."""
    return (151643, 151645) if vocab_size > 151645 else (0, min(1, vocab_size - 1))


def write_configs(folder, c, dtype):
    """config.json and generation_config.json as transformers 5 writes them."""
    pad, eos = token_ids(c["vocab_size"])
    write_json(folder, "config.json", {
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": pad, "dtype": DTYPES[dtype][1], "eos_token_id": eos, "head_dim": c["head_dim"],
        "hidden_act": "silu", "hidden_size": c["hidden_size"], "initializer_range": STD,
        "intermediate_size": c["intermediate_size"], "layer_types": ["full_attention"] * c["num_hidden_layers"],
        "max_position_embeddings": c["max_position_embeddings"], "max_window_layers": c["num_hidden_layers"],
        "model_type": "qwen3", "num_attention_heads": c["num_attention_heads"],
        "num_hidden_layers": c["num_hidden_layers"], "num_key_value_heads": c["num_key_value_heads"],
        "pad_token_id": pad, "rms_norm_eps": c["rms_norm_eps"],
        "rope_parameters": {"rope_theta": c["rope_theta"], "rope_type": "default"}, "sliding_window": None,
        "tie_word_embeddings": c["tie_word_embeddings"], "transformers_version": "5.17.0", "use_cache": True,
        "use_sliding_window": False, "vocab_size": c["vocab_size"]})
    write_json(folder, "generation_config.json", {
        "bos_token_id": pad, "eos_token_id": [eos, pad], "pad_token_id": pad, "do_sample": True, "temperature": 0.6,
        "top_k": 20, "top_p": 0.95})


def byte_count(text):
    """500MB, 5GB, 60KB or plain bytes; powers of ten, as save_pretrained reads them."""
    for unit, factor in (("KB", 10**3), ("MB", 10**6), ("GB", 10**9), ("", 1)):
        if text.upper().endswith(unit):
            number = text[:len(text) - len(unit)]
            if number.isdigit() and int(number) > 0:
                return int(number) * factor
            break
    raise argparse.ArgumentTypeError(f"is {text}, want a size such as 500MB")


def positive(text):
    if text.isdigit() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"is {text}, want a whole number above 0")


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="folder to write; made if it is not there, must hold no weights yet")
    parser.add_argument("--preset", choices=PRESETS, default="tiny")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shard-size", type=byte_count, metavar="SIZE", help="most bytes of tensors in a file: 500MB, 5GB")
    parser.add_argument("--config-only", action="store_true", help="no weights: for nanovllm's --load-format dummy")
    parser.add_argument("--tokenizer", metavar="DIR", help="copy tokenizer.json and tokenizer_config.json from here")
    for size in SIZES:
        parser.add_argument("--" + size.replace("_", "-"), type=positive, metavar="N", help="instead of the preset's")
    parser.add_argument("--rope-theta", type=float, default=1e6)
    parser.add_argument("--rms-norm-eps", type=float, default=1e-6)
    parser.add_argument("--tie-word-embeddings", choices=("true", "false"), help="instead of the preset's")
    args = parser.parse_args()

    config = dict(zip(SIZES + ("tie_word_embeddings",), PRESETS[args.preset]))
    config.update({size: getattr(args, size) for size in SIZES if getattr(args, size) is not None})
    if args.tie_word_embeddings:
        config["tie_word_embeddings"] = args.tie_word_embeddings == "true"
    config.update(rope_theta=args.rope_theta, rms_norm_eps=args.rms_norm_eps)
    if config["num_attention_heads"] % config["num_key_value_heads"]:
        parser.error(f"num_attention_heads is {config['num_attention_heads']}, want a multiple of num_key_value_heads "
                     f"{config['num_key_value_heads']}")
    if args.seed < 0:
        parser.error(f"seed is {args.seed}, want 0 or more")
    if os.path.isdir(args.out) and any(name.startswith("model") for name in os.listdir(args.out)):
        parser.error(f"{args.out}: holds a model already, want a new or empty folder")
    if args.tokenizer and not os.path.isfile(os.path.join(args.tokenizer, "tokenizer.json")):
        parser.error(f"{args.tokenizer}: has no tokenizer.json")
    return args, config


def main():
    args, config = parse_args()
    began = time.monotonic()
    os.makedirs(args.out, exist_ok=True)
    write_configs(args.out, config, args.dtype)
    count = 0 if args.config_only else write_weights(args.out, config, args.dtype, args.seed, args.shard_size)
    if args.tokenizer:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            if os.path.isfile(os.path.join(args.tokenizer, name)):
                shutil.copyfile(os.path.join(args.tokenizer, name), os.path.join(args.out, name))
    if args.config_only:
        print(f"{args.out}: config.json, no weights")
        return
    how = "independent draws" if numpy else f"no numpy, so values repeat every {TABLE_SIZE:,} (see --help)"
    print(f"{args.out}: {count:,} parameters in {args.dtype}, {time.monotonic() - began:.1f} s, {how}")


if __name__ == "__main__":
    main()
