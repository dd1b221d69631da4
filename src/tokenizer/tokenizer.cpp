#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/unicode.h"
#include "tokenizer/bpe.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/vocabulary.h"

namespace nanovllm {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;  // positions in a word are 32 bits

std::vector<Vocabulary::Entry> all_entries(const TokenizerJson& json) {
  std::vector<Vocabulary::Entry> entries = json.model.vocab;
  for (const AddedToken& token : json.added_tokens) entries.push_back({token.content, token.id});
  return entries;
}

std::string normalize_all(std::string_view text, const std::vector<NormalForm>& forms) {
  std::string out(text);
  for (const NormalForm form : forms) out = normalize(out, form);
  return out;
}

// The tokens that are looked for before (kRaw) or after normalisation; the latter by their normalised
// content.
enum class Stage { kRaw, kNormalized };
std::vector<AddedToken> tokens_of(const TokenizerJson& json, Stage stage) {
  std::vector<AddedToken> tokens;
  for (AddedToken token : json.added_tokens) {
    if (token.normalized != (stage == Stage::kNormalized)) continue;
    if (token.normalized) token.content = normalize_all(token.content, json.normalizers);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::vector<std::string> contents(const std::vector<AddedToken>& tokens) {
  std::vector<std::string> out;
  for (const AddedToken& token : tokens) out.push_back(token.content);
  return out;
}

// The ranges of the part of a text that begins at `offset`.
std::vector<ByteRange> ranges_within(std::span<const ByteRange> ranges, size_t offset, size_t size) {
  std::vector<ByteRange> out;
  for (const ByteRange& range : ranges) {
    const size_t begin = std::max(range.begin, offset), end = std::min(range.end, offset + size);
    if (begin < end) out.push_back({begin - offset, end - offset});
  }
  return out;
}

// Where the ranges of a text are once it is normalised. If a character was composed across the end of one, all
// of the text counts as the message's.
std::vector<ByteRange> normalized_ranges(std::string_view text, const std::vector<ByteRange>& ranges,
                                         const std::vector<NormalForm>& forms, std::string_view normalized) {
  if (ranges.empty() || text == normalized) return ranges;
  std::vector<ByteRange> out;
  std::string joined;
  size_t done = 0;
  for (const ByteRange& range : ranges) {
    joined += normalize_all(text.substr(done, range.begin - done), forms);
    const size_t begin = joined.size();
    joined += normalize_all(text.substr(range.begin, range.end - range.begin), forms);
    out.push_back({begin, joined.size()});
    done = range.end;
  }
  joined += normalize_all(text.substr(done), forms);
  if (joined != normalized) return {{0, normalized.size()}};
  return out;
}

}  // namespace

struct Tokenizer::State {
  State(TokenizerJson json, std::string_view where)
      : vocabulary(all_entries(json), where),
        bpe(json.model, contents(json.added_tokens), vocabulary, where),
        raw_tokens(tokens_of(json, Stage::kRaw)),
        normalized_tokens(tokens_of(json, Stage::kNormalized)),
        normalizers(std::move(json.normalizers)),
        pre_tokenizer(std::move(json.pre_tokenizer)),
        prefix_ids(std::move(json.prefix_ids)),
        suffix_ids(std::move(json.suffix_ids)),
        special(size_t(vocabulary.num_tokens())) {
    for (const AddedToken& token : json.added_tokens)
      if (token.special) special[size_t(token.id)] = true;
    for (const auto& ids : {prefix_ids, suffix_ids})
      for (const TokenId id : ids)
        if (!vocabulary.has(id))
          fail(ErrorKind::kConfig, where, ": post_processor: id ", id, " is not in the vocabulary");
  }

  Vocabulary vocabulary;
  Bpe bpe;
  AddedTokenFinder raw_tokens, normalized_tokens;
  std::vector<NormalForm> normalizers;
  std::vector<PreTokenizerStep> pre_tokenizer;
  std::vector<TokenId> prefix_ids, suffix_ids;
  std::vector<bool> special;  // by id
  std::string bos_token, eos_token;
  std::optional<TokenId> eos_token_id;
};

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::parse(std::string_view tokenizer_json, std::string_view name) {
  return Tokenizer(std::make_unique<State>(read_tokenizer_json(tokenizer_json, name), name));
}

Tokenizer Tokenizer::load(const std::filesystem::path& model_folder) {
  const std::filesystem::path path = model_folder / "tokenizer.json",
                              config_path = model_folder / "tokenizer_config.json";
  auto state =
      std::make_unique<State>(read_tokenizer_json(MappedFile(path).text(), path.string()), path.string());
  if (std::filesystem::exists(config_path)) {
    const TokenizerConfig config =
        read_tokenizer_config(MappedFile(config_path).text(), config_path.string());
    state->bos_token = config.bos_token.value_or("");
    state->eos_token = config.eos_token.value_or("");
    if (config.eos_token) {
      state->eos_token_id = state->vocabulary.find(*config.eos_token);
      if (!state->eos_token_id)
        fail(ErrorKind::kConfig, config_path.string(), ": eos_token \"", *config.eos_token,
             "\" is not a token of ", path.string());
    }
  }
  return Tokenizer(std::move(state));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, TemplateTokens template_tokens) const {
  return encode(text, {}, template_tokens);
}

std::vector<TokenId> Tokenizer::encode_prompt(const PromptText& text, TemplateTokens template_tokens) const {
  return encode(text.str(), text.message_ranges(), template_tokens);
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, std::span<const ByteRange> message_ranges,
                                       TemplateTokens template_tokens) const {
  const State& s = *state_;
  if (text.size() > kMaxTextBytes)
    fail(ErrorKind::kRequest, "text: has ", text.size(), " bytes, want at most ", kMaxTextBytes);
  if (const size_t offset = find_invalid_utf8(text); offset != text.npos)
    fail(ErrorKind::kRequest, "text: byte ", offset, " of ", text.size(), " is not valid UTF-8");

  std::vector<TokenId> ids;
  if (template_tokens == TemplateTokens::kAdd) ids = s.prefix_ids;
  for (const TextPart& raw : s.raw_tokens.split(text, message_ranges)) {
    if (raw.id >= 0) {
      ids.push_back(raw.id);
      continue;
    }
    const std::string normalized = normalize_all(raw.text, s.normalizers);
    std::vector<ByteRange> ranges;
    if (!s.normalized_tokens.empty())
      ranges = normalized_ranges(
          raw.text, ranges_within(message_ranges, size_t(raw.text.data() - text.data()), raw.text.size()),
          s.normalizers, normalized);
    for (const TextPart& part : s.normalized_tokens.split(normalized, ranges)) {
      if (part.id >= 0)
        ids.push_back(part.id);
      else
        s.bpe.encode(pre_tokenize(s.pre_tokenizer, part.text).pieces, ids);
    }
  }
  if (template_tokens == TemplateTokens::kAdd)
    ids.insert(ids.end(), s.suffix_ids.begin(), s.suffix_ids.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, SpecialText special_text) const {
  std::string bytes;
  for (const TokenId id : ids)
    if (special_text == SpecialText::kKeep || !is_special(id)) bytes += token_bytes(id);
  return replace_invalid_utf8(bytes);
}

std::string_view Tokenizer::token_bytes(TokenId id) const { return state_->vocabulary.bytes(id); }
bool Tokenizer::is_special(TokenId id) const {
  return id >= 0 && id < num_tokens() && state_->special[size_t(id)];
}
int Tokenizer::num_tokens() const { return state_->vocabulary.num_tokens(); }
std::optional<TokenId> Tokenizer::find(std::string_view token_text) const {
  return state_->vocabulary.find(token_text);
}
std::optional<TokenId> Tokenizer::eos_token_id() const { return state_->eos_token_id; }
const std::string& Tokenizer::bos_token() const { return state_->bos_token; }
const std::string& Tokenizer::eos_token() const { return state_->eos_token; }

}  // namespace nanovllm
