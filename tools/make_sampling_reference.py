#!/usr/bin/env python3
"""Write what Hugging Face transformers' logits processors make of some rows, as reference data.

  python tools/make_sampling_reference.py --out tests/golden/sampling.json

needs torch (the CPU is enough) and transformers 5. The file has

transformers  the version
rows          [{"logits": [V], "token_ids": [...]}]   float32 values, and tokens that were there before
cases         [{"row", "repetition_penalty", "temperature", "top_k", "top_p", "min_p",
                "penalized": [V] or null,             the logits behind RepetitionPenaltyLogitsProcessor, if that is asked for
                "kept": [ids], "probabilities": [...]}]   what temperature and the filters leave, by rising id, and its softmax

Filters run in the order of docs/sampling.md (min_p, top_k, top_p), each by its own processor.
"""
import argparse, json
import torch
import transformers
from transformers.generation.logits_process import (MinPLogitsWarper, RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper,
                                                    TopKLogitsWarper, TopPLogitsWarper)

VOCAB = 200


def make_rows():
    generator = torch.Generator().manual_seed(7)
    rows = []
    for scale in (0.5, 2.0, 6.0):
        logits = torch.randn(VOCAB, generator=generator) * scale
        ids = torch.randint(VOCAB, (25,), generator=generator)
        rows.append((logits, ids))
    return rows


def cases():
    neutral = dict(repetition_penalty=1.0, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
    for change in (dict(repetition_penalty=1.3), dict(repetition_penalty=0.8), dict(temperature=0.3), dict(temperature=1.7),
                   dict(top_k=1), dict(top_k=7), dict(top_k=150), dict(top_p=0.2), dict(top_p=0.9), dict(top_p=0.999),
                   dict(min_p=0.05), dict(min_p=0.5), dict(temperature=0.7, top_k=20, top_p=0.8),
                   dict(temperature=1.5, top_p=0.95, min_p=0.02), dict(repetition_penalty=1.1, temperature=0.6, top_k=20, top_p=0.95),
                   dict(repetition_penalty=1.2, temperature=0.9, top_k=50, top_p=0.9, min_p=0.01)):
        yield neutral | change


def run(logits, ids, case):
    scores, ids = logits[None].clone(), ids[None]
    penalized = None
    if case["repetition_penalty"] != 1:
        scores = RepetitionPenaltyLogitsProcessor(case["repetition_penalty"])(ids, scores)
        penalized = scores[0].tolist()
    scores = TemperatureLogitsWarper(case["temperature"])(ids, scores)
    if case["min_p"] > 0:
        scores = MinPLogitsWarper(case["min_p"])(ids, scores)
    if case["top_k"] > 0:
        scores = TopKLogitsWarper(case["top_k"])(ids, scores)
    if case["top_p"] < 1:
        scores = TopPLogitsWarper(case["top_p"])(ids, scores)
    kept = torch.isfinite(scores[0]).nonzero()[:, 0]
    probabilities = torch.softmax(scores[0].double(), -1)[kept]
    return case | {"penalized": penalized, "kept": kept.tolist(), "probabilities": probabilities.tolist()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    rows = make_rows()
    results = [{"row": i} | run(logits, ids, case) for i, (logits, ids) in enumerate(rows) for case in cases()]
    with open(parser.parse_args().out, "w") as out:
        json.dump({"transformers": transformers.__version__,
                   "rows": [{"logits": logits.tolist(), "token_ids": ids.tolist()} for logits, ids in rows],
                   "cases": results}, out)
        out.write("\n")


if __name__ == "__main__":
    main()
