#include "tokenizer/tokenizer_json.h"

#include <limits>
#include <utility>

#include "tokenizer/json_fields.h"

namespace nanovllm {
namespace {

// ByteLevel's own words (GPT-2's encoder.py).
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string_view type_of(const JsonValue& part) { return part.at("type").as_string(); }

[[noreturn]] void refuse(const JsonValue& part, std::string_view what, std::string_view supported) {
  fail(ErrorKind::kUnsupported, part.path(), ": \"", what, "\" is not supported, only ", supported);
}

// A hundred thousand of these are read, so a value gets its path in an error only.
std::pair<std::string_view, std::string_view> read_merge(const JsonValue& merges,
                                                         simdjson::dom::element element, size_t index) {
  std::string_view left, right;
  if (element.get(left) == simdjson::SUCCESS) {
    const size_t space = left.find(' ');
    if (space == left.npos || left.find(' ', space + 1) != left.npos)
      fail(ErrorKind::kConfig, merges.item(element, index).path(), ": is \"", left,
           "\", want two pieces with a space between");
    return {left.substr(0, space), left.substr(space + 1)};
  }
  simdjson::dom::array pair;
  if (element.get(pair) == simdjson::SUCCESS && pair.size() == 2 &&
      pair.at(0).get(left) == simdjson::SUCCESS && pair.at(1).get(right) == simdjson::SUCCESS)
    return {left, right};
  const JsonValue merge = merges.item(element, index);
  merge.for_each_item([](const JsonValue& piece) { piece.as_string(); });  // throws where one is no string
  fail(ErrorKind::kConfig, merge.path(), ": has ", merge.as_array().size(), " pieces, want 2");
}

// unk_token and fuse_unk have no effect: a byte-level vocabulary knows every byte (Bpe checks it).
BpeModel read_model(const JsonValue& model) {
  if (type_of(model) != "BPE") refuse(model.at("type"), type_of(model), "BPE");
  if (model.has("dropout") && model.at("dropout").as_number() != 0)
    fail(ErrorKind::kUnsupported, model.path(), ": dropout is not supported, want null");
  for (const std::string_view affix : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (model.has(affix) && !model.at(affix).as_string().empty())
      fail(ErrorKind::kUnsupported, model.path(), ": ", affix, " is not supported, want null or \"\"");
  if (model.flag("byte_fallback", false))
    fail(ErrorKind::kUnsupported, model.path(), ": byte_fallback is not supported, want false");

  BpeModel out;
  out.ignore_merges = model.flag("ignore_merges", false);
  const JsonValue vocab = model.at("vocab");
  for (const auto [text, id] : vocab.as_object()) {
    int64_t number = -1;
    if (id.get(number) != simdjson::SUCCESS || number < 0 || number > std::numeric_limits<TokenId>::max())
      number = JsonValue(id, vocab.path() + "[\"" + std::string(text) + "\"]").as_token_id();  // throws
    out.vocab.push_back({text, TokenId(number)});
  }
  const JsonValue merges = model.at("merges");
  for (const simdjson::dom::element merge : merges.as_array())
    out.merges.push_back(read_merge(merges, merge, out.merges.size()));
  return out;
}

AddedToken read_added_token(const JsonValue& token) {
  AddedToken out;
  out.id = token.at("id").as_token_id();
  out.content = token.at("content").as_string();
  if (out.content.empty())
    fail(ErrorKind::kConfig, token.path(), ": content is empty, want the token's text");
  out.special = token.flag("special", false);
  out.single_word = token.flag("single_word", false);
  out.lstrip = token.flag("lstrip", false);
  out.rstrip = token.flag("rstrip", false);
  out.normalized = token.flag("normalized", !out.special);
  return out;
}

void read_normalizer(const JsonValue& normalizer, std::vector<NormalForm>& out) {
  if (normalizer.is_null()) return;
  const std::string_view type = type_of(normalizer);
  if (type == "NFC")
    out.push_back(NormalForm::kNfc);
  else if (type == "NFKC")
    out.push_back(NormalForm::kNfkc);
  else if (type == "Sequence")
    normalizer.at("normalizers").for_each_item([&](const JsonValue& part) { read_normalizer(part, out); });
  else
    refuse(normalizer, type, "NFC, NFKC and Sequence");
}

SplitBehavior read_behavior(const JsonValue& behavior) {
  const std::string_view name = behavior.as_string();
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  refuse(behavior, name, "Isolated, Removed, MergedWithPrevious, MergedWithNext and Contiguous");
}

PreTokenizerStep read_split(const JsonValue& split) {
  const JsonValue pattern = split.at("pattern");
  PreTokenizerStep step;
  if (pattern.has("Regex"))
    step.pattern.push_back(Pattern::regex(pattern.at("Regex").as_string(), pattern.path()));
  else if (pattern.has("String"))
    step.pattern.push_back(Pattern::literal(pattern.at("String").as_string(), pattern.path()));
  else
    fail(ErrorKind::kConfig, pattern.path(), ": want \"Regex\" or \"String\"");
  step.behavior = read_behavior(split.at("behavior"));
  if (split.flag("invert", false)) step.split_at = SplitAt::kBetweenMatches;
  return step;
}

PreTokenizerStep read_byte_level(const JsonValue& byte_level) {
  PreTokenizerStep step;
  if (byte_level.flag("add_prefix_space", true)) step.space_prefix = PreTokenizerStep::SpacePrefix::kAdd;
  if (byte_level.flag("use_regex", true))
    step.pattern.push_back(Pattern::regex(kGpt2Pattern, byte_level.path()));
  return step;
}

PreTokenizerStep read_digits(const JsonValue& digits) {
  PreTokenizerStep step;
  step.pattern.push_back(Pattern::regex(R"(\p{N})", digits.path()));
  if (!digits.flag("individual_digits", false)) step.behavior = SplitBehavior::kContiguous;
  return step;
}

// The steps, and the kinds beside them: ByteLevel changes the alphabet, so it must come last and exactly
// once.
struct PreTokenizerSteps {
  std::vector<PreTokenizerStep> steps;
  std::vector<std::string> kinds;
};

void read_pre_tokenizer(const JsonValue& part, PreTokenizerSteps& out) {
  if (part.is_null()) return;
  const std::string type(type_of(part));
  if (type == "Sequence")
    return part.at("pretokenizers").for_each_item([&](const JsonValue& item) {
      read_pre_tokenizer(item, out);
    });
  if (type == "Split")
    out.steps.push_back(read_split(part));
  else if (type == "ByteLevel")
    out.steps.push_back(read_byte_level(part));
  else if (type == "Digits")
    out.steps.push_back(read_digits(part));
  else
    refuse(part, type, "Split, ByteLevel, Digits and Sequence");
  if (!out.kinds.empty() && out.kinds.back() == "ByteLevel")
    fail(ErrorKind::kUnsupported, part.path(), ": ", type,
         " after ByteLevel is not supported, want ByteLevel last");
  out.kinds.push_back(type);
}

void read_template(const JsonValue& processor, TokenizerJson& out) {
  bool before_text = true;
  processor.at("single").for_each_item([&](const JsonValue& piece) {
    if (piece.has("Sequence")) {
      if (!before_text) fail(ErrorKind::kUnsupported, piece.path(), ": the text twice is not supported");
      before_text = false;
      return;
    }
    const std::string name(piece.at("SpecialToken").at("id").as_string());
    processor.at("special_tokens").at(name).at("ids").for_each_item([&](const JsonValue& id) {
      (before_text ? out.prefix_ids : out.suffix_ids).push_back(id.as_token_id());
    });
  });
  if (before_text)
    fail(ErrorKind::kUnsupported, processor.path(), ": a template without the text is not supported");
}

// ByteLevel trims offsets, which are not kept here.
void read_post_processor(const JsonValue& processor, TokenizerJson& out) {
  if (processor.is_null()) return;
  const std::string_view type = type_of(processor);
  if (type == "Sequence")
    return processor.at("processors").for_each_item([&](const JsonValue& item) {
      read_post_processor(item, out);
    });
  if (type == "ByteLevel") return;
  if (type != "TemplateProcessing") refuse(processor, type, "ByteLevel, TemplateProcessing and Sequence");
  if (!out.prefix_ids.empty() || !out.suffix_ids.empty())
    fail(ErrorKind::kUnsupported, processor.path(), ": a second TemplateProcessing is not supported");
  read_template(processor, out);
}

std::optional<std::string> read_token_text(const JsonValue& config, std::string_view key) {
  if (!config.has(key)) return std::nullopt;
  const JsonValue token = config.at(key);
  return std::string((token.is_object() ? token.at("content") : token).as_string());
}

}  // namespace

// "truncation" and "padding" are settings of a training run: transformers resets them before it encodes.
TokenizerJson read_tokenizer_json(std::string_view json, std::string_view where) {
  const auto parser = std::make_shared<simdjson::dom::parser>();
  const JsonValue root = parse_json(*parser, json, where);
  TokenizerJson out;
  out.document = parser;
  out.model = read_model(root.at("model"));
  if (root.has("added_tokens"))
    root.at("added_tokens").for_each_item([&](const JsonValue& token) {
      out.added_tokens.push_back(read_added_token(token));
    });
  if (root.has("normalizer")) read_normalizer(root.at("normalizer"), out.normalizers);
  PreTokenizerSteps steps;
  if (root.has("pre_tokenizer")) read_pre_tokenizer(root.at("pre_tokenizer"), steps);
  if (steps.kinds.empty() || steps.kinds.back() != "ByteLevel")
    fail(ErrorKind::kUnsupported, where,
         ": pre_tokenizer: no ByteLevel at its end, want a byte-level tokenizer");
  out.pre_tokenizer = std::move(steps.steps);
  if (root.has("post_processor")) read_post_processor(root.at("post_processor"), out);
  if (!root.has("decoder") || type_of(root.at("decoder")) != "ByteLevel")
    fail(ErrorKind::kUnsupported, where, ": decoder: is not ByteLevel, which is the only one supported");
  return out;
}

TokenizerConfig read_tokenizer_config(std::string_view json, std::string_view where) {
  simdjson::dom::parser parser;
  const JsonValue root = parse_json(parser, json, where);
  return {read_token_text(root, "bos_token"), read_token_text(root, "eos_token")};
}

}  // namespace nanovllm
