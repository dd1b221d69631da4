#!/usr/bin/env python3
"""Write tests/golden/tokenizer/small.json: what Hugging Face tokenizers does with small hand-made tokenizer.json files.

    pip install tokenizers==0.23.3
    python tools/make_tokenizer_reference.py tests/golden/tokenizer/small.json

The file holds one base tokenizer.json and cases. A case replaces fields of the base ("changes": top-level fields,
"model_changes": fields of its model) and lists rows of text, ids, decoded texts and how it was encoded.
"""
import argparse
import copy
import json
import random

from tokenizers import Tokenizer

QWEN3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN35 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
MERGES = ["h e", "l l", "he ll", "hell o", "o w", "Ġ w", "Ġw o", "Ġwo r", "l d", "Ġwor ld", "Ġ Ġ", "ĠĠ ĠĠ", "a b", "ab c", "b c", "c d",
          "bc d", "ab ab", "1 2", "12 3", "Ċ Ċ", "Ġ h", "Ġh e", "Ã ©", "e Ì", "eÌ ģ", "t h", "i n", "in g", "x x", "xx xx", "' s", "' S", "' t",
          "x Ì", "xÌ ģ", "Â ł", "ã Ģ", "ãĢ Ģ"]


def byte_symbols():
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in kept]
    return [chr(b) if b in kept else chr(256 + rest.index(b)) for b in range(256)]


def base():
    vocab = {symbol: id for id, symbol in enumerate(byte_symbols())}
    for merge in MERGES:
        vocab.setdefault(merge.replace(" ", ""), len(vocab))
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": byte_level(use_regex=True), "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": MERGES}}


def byte_level(add_prefix_space=False, use_regex=False):
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": True, "use_regex": use_regex}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(*steps):
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [*steps, byte_level()]}}


def added(*tokens):
    vocab = base()["model"]["vocab"]
    flags = {"special": False, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    out = []
    for content, *names in tokens:
        out.append({"id": vocab.setdefault(content, len(vocab)), "content": content, **flags, **{name: True for name in names}})
    return {"added_tokens": out}


FLAG_TEXTS = ["", "<m>", "a<m>b", "a <m> b", "a  \t<m>\n\n b", "<m><m>", "<m> <m>", " <m>  <m> ", "a\u00a0<m>\u3000b", "a\u180e<m>\u200bb", "a_<m>", "a-<m>-b",
              "a\u0301<m>", "<m>\u0301", "\u0661<m>", "\u2167<m>", "\u00bd<m>", "\u203f<m>", "\u200d<m>", "\u24b6<m>", "<m>é", "<<m>>", "<m", "m>", "<m><m", "hello <m> world",
              "a\x85<m>\x1cb"]
SPLIT_TEXTS = ["", "a", "-", "a-b", "-a-", "a--b", "--a---b-", "hello-world", "a-b--c---d", "é-é", "- -", "ab ab"]
SPACE_TEXTS = ["".join(s) for s in [("a", c, "b") for c in "\t\n\v\f\r \x1c\x1f\x85\xa0\u1680\u180e\u2000\u200a\u200b\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"]] + \
    ["a" + 2 * c + "b" for c in "\x1c\x85\xa0\u180e\u2028\u3000"] + [c + "\n" for c in "\x85\xa0\u180e\u2028\u3000"]
WORD_TEXTS = ["hello world", " hello  world ", "it's IT'S it\u2019s '\u017f '\u212a", "12345 \u0661\u0662 \u2167 \u00bd \u00b2 \u3007 \u4e00", "a\n\n b\r\n\r\nc  \n", "->(x):\n", "-->!?\n\n x",
              "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0301a \u0301b 1\u0301", "abcabcdababcd", "xxxxxxxxx", "e\u0301x\u0301", "\u2460\u24b6\U0001f130", "tab\tx\t\ty", "\u00a0x \u3000y",
              "a\U00020000b\U0001f600c", "    x", "x    ", "'LL'll'Ll we'Ve"]
NORMAL_TEXTS = ["e\u0301 \u00e9 \ufb01 \u212b \u2126 \u00bd x\u0338", "\u1100\u1161\u11a8 \uac00\u11a8", "a\u0301\u0323 a\u0323\u0301", "\u0f71\u0f74\u0f72", "\uff21\uff10\u3000x",
                "\u0344 \u0958 \u2adc \ufb1d", "<\u00e9> <e\u0301>", "\ufdfa", "\u1e9b\u0323", "\u00a0\u2002 hello", "\u00c5\u212b A\u030a", "\U0001d15e \U0002f800", "-\u07f3\u07fd a\u07fd\u0301", "\U00011935\U00011930", "\u32ff"]


def cases():
    for names in [(), ("special",), ("lstrip",), ("rstrip",), ("lstrip", "rstrip"), ("single_word",), ("single_word", "lstrip", "rstrip"), ("normalized",)]:
        yield "flags " + "+".join(names), added(("<m>", *names)), FLAG_TEXTS
    yield "two tokens that strip", added(("<m>", "rstrip"), (" <n>",), ("<l>", "lstrip")), ["<m> <n>", "<m>  <n>x", "a <n> <l>", "<m> <l>", "<m>   <l> <n>", "x <l>  <l>"]
    yield "overlapping tokens", added(("ab",), ("abc",), ("bcd",), ("b",), ("abcde",)), ["abcd", "abcde", "abab", "xbcd", "abcdf", "aab", "abcdabcde", "bbc"]
    yield "skipped single word", added(("ab", "single_word"), ("b",), ("bc",)), ["abc", "ab c", "xab", "ab", "ab.bc"]
    yield "token with spaces and symbols", added(("a b",), ("é",), ("中文",), ("Ġ中",)), ["a b", "xéx", "Ġ", "中文字", "Ġ中", "éé"]
    yield "token of the vocabulary", added(("hello", "special")), ["hello", "xhello", "hell o"]
    mixed = added(("<é>", "normalized"), ("<fi>", "normalized"), ("ﬁ",), ("<s>", "special", "normalized"), ("<t>", "special"))
    for form in ["NFC", "NFKC"]:
        yield form, {"normalizer": {"type": form}, **mixed}, NORMAL_TEXTS + ["<ﬁ>", "<fi>", "ﬁ", "<e\u0301>", "<s>\u0301", "<s>x<t>\u0301"]
    yield "two normalizers", {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "NFKC"}]}}, NORMAL_TEXTS
    yield "no normalizer", {}, NORMAL_TEXTS
    yield "NFC after added tokens", {"normalizer": {"type": "NFC"}, **added(("e",))}, ["e\u0301", "xe\u0301e"]
    for behavior in ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
        for invert in [False, True]:
            for kind, pattern in [("String", "-"), ("Regex", "-"), ("Regex", "--?|b")]:
                yield f"split {kind} {pattern} {behavior} invert={invert}", sequence(split(pattern, behavior, invert, kind)), SPLIT_TEXTS
    yield "split at a string of metacharacters", sequence(split(".*", "Removed", kind="String")), ["a.*b", ".*", "ab.c*", "a..**b"]
    for pattern in ["x*", "(?=b)", "b|$", "^a", "a$", ".", "(?<=a)b", "(?<!a)b", "(?>a+)b", "a{2}", "a{1,2}?", "(a|ab)(c|bcd)", "[^\\S\\n]+", "\\S+", "\\D+", "[\\]\\-a]+", "\\x41+", "a++"]:
        yield f"pattern {pattern}", sequence(split(pattern)), ["", "a", "ab", "xxb", "aab\naab", "bxbé", "abcd", "a\n", "\na\n\nb", "AA-]a", "a b\t\u00a0c\n", "12\u0661 \u180ex\u3000", "aaab aaaa"]
    for name, pattern in [("Qwen3", QWEN3), ("Qwen3.5", QWEN35), ("Llama 3", LLAMA3)]:
        yield name, sequence(split(pattern)), WORD_TEXTS + SPACE_TEXTS
    yield "GPT-2", {}, WORD_TEXTS + SPACE_TEXTS
    for prefix in [False, True]:
        for regex in [False, True]:
            yield f"byte level prefix={prefix} regex={regex}", {"pre_tokenizer": byte_level(prefix, regex), **added(("<m>",))}, ["hello world", " hello", "\nhello", "hello<m>world<m> x", "12 ab-c", "<m>"]
    yield "prefix space after a split", {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split("-"), byte_level(True, True)]}}, SPLIT_TEXTS
    for individual in [False, True]:
        yield f"digits individual={individual}", sequence({"type": "Digits", "individual_digits": individual}), ["123", "a123b", "1a2b33", "\u00bd\u0661\u21673", "\u4e00\u30071", "12 123"]
    yield "ignore merges", {"model_changes": {"ignore_merges": True, "merges": MERGES[:8]}}, WORD_TEXTS
    bos = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
           "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
           "special_tokens": {"<s>": {"id": "<s>", "ids": [295], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [296, 295], "tokens": ["</s>", "<s>"]}}}
    tokens = added(("<s>", "special"), ("</s>", "special"))
    yield "template", {"post_processor": bos, **tokens}, ["", "hello", "<s>hello"], {"template": True}
    yield "template left out", {"post_processor": bos, **tokens}, ["", "hello", "<s>hello"]
    yield "byte level and template", {"post_processor": {"type": "Sequence", "processors": [byte_level(), bos]}, **tokens}, ["hello"], {"template": True}
    plain = ["<s>", "a<s>b</s>c<t>", "<s></s>", "<s><t>", "<ss>"]
    yield "special tokens as text", added(("<s>", "special"), ("</s>", "special", "normalized"), ("<t>", "special"), (">a", "special")), plain + ["<s>a"], {"as_text": True}


def random_texts(count, rng):
    alphabet = list("aabbccdhelow <>ms-'12é\n\t") + ["hello", " world", "<m>", "\u0301", "\u3000", "\U0001f600"]
    return ["".join(rng.choice(alphabet) for _ in range(rng.randint(1, 40))) for _ in range(count)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--random", type=int, default=0, help="random texts a case, on top of the hand-made ones")
    args = parser.parse_args()
    rng = random.Random(5)
    out = {"made_by": "tools/make_tokenizer_reference.py, tokenizers 0.23.3", "base": base(), "cases": []}
    for name, changes, texts, *how in cases():
        how = how[0] if how else {}
        changes = copy.deepcopy(changes)
        model_changes = changes.pop("model_changes", {})
        whole = {**base(), **changes}
        whole["model"] = {**whole["model"], **model_changes}
        tokenizer = Tokenizer.from_str(json.dumps(whole))
        tokenizer.encode_special_tokens = how.get("as_text", False)
        rows = []
        for text in [*texts, *random_texts(args.random, rng)]:
            ids = tokenizer.encode(text, add_special_tokens=how.get("template", False)).ids
            rows.append([text, ids, tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids, skip_special_tokens=True)])
        out["cases"].append({"name": name, "changes": changes, "model_changes": model_changes, **how, "rows": rows})
    with open(args.out, "w", encoding="utf-8") as file:
        file.write(json.dumps({key: out[key] for key in ("made_by", "base")}, ensure_ascii=True)[:-1] + ', "cases": [\n')
        file.write(",\n".join(json.dumps(case, ensure_ascii=True) for case in out["cases"]) + "\n]}\n")


if __name__ == "__main__":
    main()
