// The front door: requests at the door, answers in company, abort, errors that stay with their request.
#include "llm/llm.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/unicode.h"
#include "engine/scheduler.h"
#include "models/generation_config.h"
#include "models/model_config.h"
#include "support.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace nanovllm {
namespace {

// One thread: a test may share its processors with another, and then threads that wait for each other take long.
EngineConfig demo_config() {
  return {.model = test::demo_model(), .device = "cpu", .num_threads = 1, .max_num_seqs = 16};
}

const std::vector<std::string>& stories() {
  static const std::vector<std::string> prompts{
      "Once upon a time",
      "The little fox",
      "a",
      "It was a cold winter night, and the wind",
      "One day, a rabbit named",
      "Peter",
      "In the middle of the forest there stood a small house with a red door",
      "The king said to his daughter,"};
  return prompts;
}

// Answers of each prompt alone, in a fresh engine.
std::vector<Completion> alone(const EngineConfig& config, const SamplingParams& params) {
  LLM llm(config);
  std::vector<Completion> result;
  for (const std::string& text : stories()) {
    const std::vector<Prompt> one{Prompt(text)};
    result.push_back(llm.generate(one, std::vector<SamplingParams>{params})[0]);
  }
  return result;
}

// All answers, request i coming in at step 3 i.
std::vector<Completion> staggered(const EngineConfig& config, const SamplingParams& params) {
  LLM llm(config);
  std::vector<Completion> result(stories().size());
  std::map<RequestId, size_t> index_of;
  size_t num_added = 0;
  for (size_t step = 0; num_added < stories().size() || llm.has_unfinished(); ++step) {
    if (step % 3 == 0 && num_added < stories().size()) {
      index_of[llm.add_request(Prompt(stories()[num_added]), params)] = num_added;
      ++num_added;
    }
    for (const RequestOutput& output : llm.step()) {
      Completion& c = result[index_of.at(output.id)];
      c.text += output.text;
      c.token_ids.insert(c.token_ids.end(), output.token_ids.begin(), output.token_ids.end());
      c.finish_reason = output.finish_reason;
    }
  }
  return result;
}

void expect_equal(const std::vector<Completion>& a, const std::vector<Completion>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].token_ids, b[i].token_ids) << i;
    EXPECT_EQ(a[i].text, b[i].text) << i;
    EXPECT_EQ(a[i].finish_reason, b[i].finish_reason) << i;
  }
}

TEST(LLM, EightRequestsAtDifferentStepsAnswerAsAlone) {
  const SamplingParams greedy{.temperature = 0, .max_tokens = 20};
  const SamplingParams sampled{.temperature = 0.8f, .top_k = 20, .top_p = 0.9f, .seed = 7, .max_tokens = 20};
  for (const SamplingParams& params : {greedy, sampled}) {
    const std::vector<Completion> want = alone(demo_config(), params);
    expect_equal(staggered(demo_config(), params), want);
    EngineConfig tight = demo_config();
    tight.max_num_seqs = 3;
    tight.max_num_batched_tokens = 5;  // prompts in chunks of at most five tokens
    expect_equal(staggered(tight, params), want);
    EngineConfig threads = demo_config();
    threads.num_threads = 3;
    threads.kvcache_block_size = 32;
    expect_equal(staggered(threads, params), want);
  }
}

// Prompts and answers around the borders of blocks, for every block size.
TEST(LLM, BlockBordersChangeNothing) {
  std::vector<Prompt> prompts;
  std::vector<SamplingParams> params;
  for (const int length : {1, 15, 16, 17, 31, 32, 33}) {
    for (const int max_tokens : {1, 2, 16, 17}) {
      std::vector<TokenId> ids;
      for (int i = 0; i < length; ++i) ids.push_back(100 + 37 * i % 5000);
      prompts.emplace_back(ids);
      params.push_back({.temperature = 0, .max_tokens = max_tokens, .ignore_eos = true});
    }
  }
  std::vector<Completion> want;
  for (const int block_size : {16, 32, 256}) {
    EngineConfig config = demo_config();
    config.kvcache_block_size = block_size;
    LLM llm(config);
    const std::vector<Completion> got = llm.generate(prompts, params);
    if (want.empty()) want = got;
    expect_equal(got, want);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(int(got[i].token_ids.size()), params[i].max_tokens);
    EXPECT_EQ(llm.scheduler().blocks().num_free_blocks(), llm.scheduler().blocks().num_blocks());
  }
}

// Two chats with one long system prompt: the second finds it in the cache, and says what it says without.
TEST(LLM, ASharedSystemPromptIsComputedOnce) {
  std::string system = "You tell stories.";
  for (int i = 0; i < 20; ++i) system += " Be kind, and use simple words.";
  EngineConfig without = demo_config();
  without.prefix_caching = false;
  LLM llm(demo_config()), plain(without);
  int cached = 0;
  for (const char* question : {"Tell me about a fox.", "Tell me about a red hat."}) {
    const std::vector<ChatMessage> messages{{"system", system}, {"user", question}};
    const std::vector<Prompt> prompts{Prompt(llm.chat_template().render(messages))};
    const std::vector<SamplingParams> params{{.temperature = 0, .max_tokens = 24}};
    const Completion got = llm.generate(prompts, params)[0], want = plain.generate(prompts, params)[0];
    EXPECT_EQ(got.token_ids, want.token_ids);
    EXPECT_EQ(got.text, want.text);
    EXPECT_EQ(want.num_cached_tokens, 0);
    cached = got.num_cached_tokens;
    EXPECT_LT(cached, got.num_prompt_tokens);
  }
  EXPECT_GT(cached, 100);
  EXPECT_EQ(cached % llm.scheduler().blocks().block_size(), 0);
}

// Prompts that share beginnings of every length, in a cache for one and a half of them: hits, preemptions, chunks.
TEST(LLM, HitsAndPreemptionChangeNothing) {
  std::vector<Prompt> prompts;
  std::vector<SamplingParams> params;
  for (int i = 0; i < 10; ++i) {
    std::vector<TokenId> ids;
    for (int k = 0; k < 40 + 7 * (i % 4); ++k) ids.push_back(k < 8 * i ? 100 + k : 300 + 10 * i + k);
    prompts.emplace_back(ids);
    params.push_back(
        {.temperature = i % 2 == 0 ? 0.0f : 1.0f, .seed = 3, .max_tokens = 40, .ignore_eos = true});
  }
  EngineConfig config = demo_config();
  config.prefix_caching = false;
  std::vector<Completion> want;
  {
    LLM llm(config);
    for (size_t i = 0; i < prompts.size(); ++i)
      want.push_back(llm.generate(std::span(&prompts[i], 1), std::span(&params[i], 1))[0]);
  }
  config.max_num_seqs = 4;
  config.num_kvcache_blocks = 10;  // the longest takes seven
  for (const bool caching : {false, true}) {
    for (const int budget : {5, 512}) {
      config.prefix_caching = caching;
      config.max_num_batched_tokens = budget;
      LLM llm(config);
      const std::vector<Completion> got = llm.generate(prompts, params);
      expect_equal(got, want);
      int cached = 0;
      for (const Completion& c : got) cached += c.num_cached_tokens;
      EXPECT_EQ(cached > 0, caching);
      EXPECT_GT(llm.scheduler().metrics().num_preemptions, 0);
      EXPECT_EQ(llm.scheduler().blocks().num_free_blocks(), 10);
    }
  }
}

TEST(LLM, SaltsSeparateTheCache) {
  LLM llm(demo_config());
  const std::vector<SamplingParams> params{{.temperature = 0, .max_tokens = 1}};
  const auto cached = [&](const char* salt) {
    Prompt prompt(std::vector<TokenId>(40, 100));
    prompt.cache_salt = salt;
    return llm.generate(std::span(&prompt, 1), params)[0].num_cached_tokens;
  };
  EXPECT_EQ(cached("a"), 0);
  EXPECT_EQ(cached("b"), 0);
  EXPECT_EQ(cached("a"), 32);
}

TEST(LLM, TwoModelsInOneProcessAnswerAsAlone) {
  const std::vector<SamplingParams> params{{.temperature = 0, .max_tokens = 12, .ignore_eos = true}};
  const std::vector<Prompt> prompts{Prompt(std::vector<TokenId>{5, 6, 7})};
  const EngineConfig other{.model = test::golden("qwen3-tied-bf16"), .device = "cpu", .num_threads = 1};
  LLM a(demo_config()), b(other);
  const RequestId id = a.add_request(prompts[0], params[0]);
  const std::vector<TokenId> from_b = b.generate(prompts, params)[0].token_ids;
  std::vector<TokenId> from_a;
  while (a.has_unfinished())
    for (const RequestOutput& output : a.step()) {
      EXPECT_EQ(output.id, id);
      from_a.insert(from_a.end(), output.token_ids.begin(), output.token_ids.end());
    }
  EXPECT_EQ(from_a, LLM(demo_config()).generate(prompts, params)[0].token_ids);
  EXPECT_EQ(from_b, LLM(other).generate(prompts, params)[0].token_ids);
}

TEST(LLM, AbortEndsOneRequestAndFreesItsBlocks) {
  LLM llm(demo_config());
  const SamplingParams params{.temperature = 0, .max_tokens = 30, .ignore_eos = true};
  const RequestId first = llm.add_request(Prompt("Once upon a time"), params);
  const RequestId second = llm.add_request(Prompt("The little fox"), params);
  for (int i = 0; i < 5; ++i) llm.step();
  EXPECT_TRUE(llm.abort(first));
  EXPECT_FALSE(llm.abort(first));
  EXPECT_FALSE(llm.abort(999));
  std::map<RequestId, FinishReason> ends;
  int num_tokens = 0;
  while (llm.has_unfinished())
    for (const RequestOutput& output : llm.step()) {
      if (output.finished()) ends[output.id] = output.finish_reason;
      if (output.id == second) num_tokens = output.num_output_tokens;
    }
  EXPECT_EQ(ends, (std::map<RequestId, FinishReason>{{first, FinishReason::kAbort},
                                                     {second, FinishReason::kLength}}));
  EXPECT_EQ(num_tokens, 30);
  EXPECT_EQ(llm.scheduler().blocks().num_free_blocks(), llm.scheduler().blocks().num_blocks());

  // The last of all requests, aborted while it waits for its first step: its end is still told.
  const RequestId third = llm.add_request(Prompt("Peter"), params);
  EXPECT_TRUE(llm.abort(third));
  EXPECT_TRUE(llm.has_unfinished());
  const std::vector<RequestOutput> outputs = llm.step();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].finish_reason, FinishReason::kAbort);
  EXPECT_FALSE(llm.has_unfinished());
}

TEST(LLM, BadRequestsAreRefusedAtTheDoor) {
  LLM llm(demo_config());
  const auto refused = [&](const Prompt& prompt, const SamplingParams& params, std::string_view text) {
    test::expect_error(ErrorKind::kRequest, text, [&] { llm.add_request(prompt, params); });
  };
  refused(Prompt(""), {}, "prompt: has no tokens, want at least 1");
  refused(Prompt(std::vector<TokenId>{}), {}, "prompt: has no tokens");
  refused(Prompt(std::vector<TokenId>(2048, 5)), {},
          "prompt: has 2048 tokens, want fewer than max_model_len=2048");
  refused(Prompt(std::vector<TokenId>{1, -1}), {}, "prompt: has token id -1, want ids from 0 to 6143");
  refused(Prompt(std::vector<TokenId>{6144}), {}, "prompt: has token id 6144");
  refused(Prompt("a\xFFz"), {}, "UTF-8");
  refused(Prompt("a"), {.max_tokens = 0}, "max_tokens: is 0, want at least 1");
  refused(Prompt("a"), {.temperature = NAN}, "temperature: is nan");
  refused(Prompt("a"), {.stop_token_ids = {7000}}, "stop_token_ids: has 7000");
  EXPECT_FALSE(llm.has_unfinished());
}

TEST(LLM, TheLongestPromptRunsAndEndsAtTheContext) {
  LLM llm(demo_config());
  const std::vector<Prompt> prompts{Prompt(std::vector<TokenId>(2047, 5)),
                                    Prompt(std::vector<TokenId>(2046, 5))};
  const std::vector<SamplingParams> params{{.temperature = 0, .max_tokens = 100, .ignore_eos = true}};
  const std::vector<Completion> completions = llm.generate(prompts, params);
  EXPECT_EQ(completions[0].token_ids.size(), 1u);
  EXPECT_EQ(completions[1].token_ids.size(), 2u);
  EXPECT_EQ(completions[0].finish_reason, FinishReason::kLength);
}

TEST(LLM, APromptTooLongForTheCacheIsRefusedWithTheNumbers) {
  EngineConfig config = demo_config();
  config.num_kvcache_blocks = 8;
  LLM llm(config);
  test::expect_error(
      ErrorKind::kRequest,
      "prompt: has 128 tokens, want fewer than the 128 that the KV cache holds (8 blocks of 16)",
      [&] { llm.add_request(Prompt(std::vector<TokenId>(128, 5)), {}); });
  const std::vector<Prompt> prompts{Prompt(std::vector<TokenId>(127, 5))};
  const std::vector<SamplingParams> params{{.max_tokens = 100, .ignore_eos = true}};
  EXPECT_EQ(llm.generate(prompts, params)[0].finish_reason, FinishReason::kLength);
}

TEST(LLM, OneBadPromptOfABatchLosesNothingElse) {
  LLM llm(demo_config());
  const std::vector<Prompt> prompts{Prompt("Once upon a time"), Prompt(""), Prompt("The little fox")};
  const std::vector<SamplingParams> params{{.temperature = 0, .max_tokens = 8, .ignore_eos = true}};
  std::vector<size_t> completed;
  const std::vector<Completion> completions = llm.generate(
      prompts, params, {.on_completion = [&](size_t i, const Completion&) { completed.push_back(i); }});
  EXPECT_EQ(completions[1].error, "prompt: has no tokens, want at least 1");
  EXPECT_EQ(completions[0].token_ids.size(), 8u);
  EXPECT_EQ(completions[2].token_ids.size(), 8u);
  EXPECT_EQ(completed.size(), 3u);
}

// A full disk, say, while an answer is written.
TEST(LLM, WhatAHookThrowsLeavesNothingBehind) {
  LLM llm(demo_config());
  const std::vector<Prompt> prompts{Prompt("Once upon a time"), Prompt(""), Prompt("The little fox")};
  const std::vector<SamplingParams> params{{.temperature = 0, .max_tokens = 8, .ignore_eos = true}};
  const std::vector<Completion> want = llm.generate(prompts, params);
  const auto throwing = [](auto...) { fail(ErrorKind::kDevice, "disk full"); };
  GenerateHooks at_the_door, in_the_middle, at_a_step;
  at_the_door.on_completion = throwing;  // of the refused prompt, when another already waits
  in_the_middle.on_text = throwing;
  at_a_step.on_step = [](const StepStats&) -> bool { fail(ErrorKind::kDevice, "disk full"); };
  for (const GenerateHooks& hooks : {at_the_door, in_the_middle, at_a_step}) {
    test::expect_error(ErrorKind::kDevice, "disk full", [&] { llm.generate(prompts, params, hooks); });
    EXPECT_FALSE(llm.has_unfinished());
    EXPECT_EQ(llm.scheduler().blocks().num_free_blocks(), llm.scheduler().blocks().num_blocks());
    expect_equal(llm.generate(prompts, params), want);
  }
}

TEST(LLM, AStepHookMayEndEverything) {
  LLM llm(demo_config());
  const std::vector<Prompt> prompts{Prompt("Once upon a time"), Prompt("The little fox")};
  const std::vector<SamplingParams> params{{.temperature = 0, .max_tokens = 100, .ignore_eos = true}};
  int num_steps = 0;
  const std::vector<Completion> completions =
      llm.generate(prompts, params, {.on_step = [&](const StepStats&) { return ++num_steps < 5; }});
  for (const Completion& c : completions) {
    EXPECT_EQ(c.finish_reason, FinishReason::kAbort);
    EXPECT_EQ(c.token_ids.size(), 5u);
  }
}

TEST(LLM, ParameterSetsMustFitThePrompts) {
  LLM llm(demo_config());
  const std::vector<Prompt> prompts{Prompt("a"), Prompt("b"), Prompt("c")};
  test::expect_error(ErrorKind::kRequest,
                     "has 2 sets of sampling parameters for 3 prompts, want one for all or one",
                     [&] { llm.generate(prompts, std::vector<SamplingParams>(2)); });
  llm.add_request(prompts[0], {});
  test::expect_error(ErrorKind::kRequest, "other requests are unfinished",
                     [&] { llm.generate(prompts, std::vector<SamplingParams>(1)); });
}

TEST(LLM, PiecesOfAStreamJoinToTheAnswer) {
  LLM llm(demo_config());
  const std::vector<Prompt> prompts{Prompt("Zwölf Boxkämpfer 你好 😀")};
  const std::vector<SamplingParams> params{
      {.temperature = 1.5f, .seed = 3, .max_tokens = 100, .ignore_eos = true}};
  std::string joined;
  const Completion c =
      llm.generate(prompts, params, {.on_text = [&](size_t, const std::string& text) { joined += text; }})[0];
  EXPECT_EQ(joined, c.text);
  EXPECT_EQ(c.text, llm.tokenizer()->decode(c.token_ids, SpecialText::kSkip));
}

TEST(LLM, StopTokensEndTheAnswerAndAreNotInItsText) {
  LLM llm(demo_config());
  const std::vector<Prompt> prompts{Prompt("Once upon a time")};
  const Completion free =
      llm.generate(prompts, std::vector<SamplingParams>{{.temperature = 0, .max_tokens = 20}})[0];
  const TokenId stop = free.token_ids[6];
  const Completion c = llm.generate(
      prompts, std::vector<SamplingParams>{
                   {.temperature = 0, .max_tokens = 20, .ignore_eos = true, .stop_token_ids = {stop}}})[0];
  EXPECT_EQ(c.finish_reason, FinishReason::kStop);
  EXPECT_EQ(c.token_ids.back(), stop);
  EXPECT_EQ(c.text, llm.tokenizer()->decode(std::span(c.token_ids).first(c.token_ids.size() - 1),
                                            SpecialText::kSkip));
}

// Rows of the vocabulary that the tokenizer does not know are never drawn, however hot.
TEST(LLM, IdsPastTheTokenizerAreNeverSampled) {
  const test::ScratchFolder folder;
  for (const auto& entry : std::filesystem::directory_iterator(test::golden("qwen3-tied-bf16")))
    if (entry.path().filename().string().starts_with("model"))
      std::filesystem::create_symlink(entry.path(), folder / entry.path().filename().string());
  std::filesystem::copy_file(test::golden("qwen3-tied-bf16") / "config.json", folder / "config.json");
  // 256 byte tokens and a merged one for a vocabulary of 320 rows.
  std::string vocab;
  int id = 0;
  const auto add = [&](int code_point) {
    std::string text;
    append_utf8(text, char32_t(code_point));
    if (text == "\"" || text == "\\") text = "\\" + text;
    vocab += (id ? "," : "") + ("\"" + text + "\":" + std::to_string(id));
    ++id;
  };
  for (int byte = 0; byte < 256; ++byte)
    if ((byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE) add(byte);
  for (int i = 0; id < 256; ++i) add(256 + i);
  folder.write(
      "tokenizer.json",
      R"({"added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,)"
      R"("use_regex":true},"post_processor":null,"decoder":{"type":"ByteLevel"},"model":{"type":"BPE",)"
      R"("ignore_merges":false,"vocab":{)" +
          vocab + R"(,"ab":256},"merges":["a b"]}})");
  LLM llm({.model = folder.path(), .num_threads = 1});
  ASSERT_EQ(llm.tokenizer()->num_tokens(), 257);
  const std::vector<Prompt> prompts{
      Prompt(std::vector<TokenId>{5, 300})};  // ids of the model, not of the tokenizer: accepted
  const std::vector<SamplingParams> params{
      {.temperature = 2, .seed = 1, .max_tokens = 200, .ignore_eos = true}};
  const Completion completion = llm.generate(prompts, params)[0];
  EXPECT_EQ(completion.token_ids.size(), 200u);
  for (const TokenId token : completion.token_ids) EXPECT_LT(token, 257);
  EXPECT_EQ(llm.tokenizer()->decode(std::vector<TokenId>{300}, SpecialText::kSkip), "");
  const SamplingParams unknown{.allowed_token_ids = std::vector<TokenId>{257, 300}};
  test::expect_error(ErrorKind::kRequest,
                     "allowed_token_ids: has none that the tokenizer knows, want one from 0 to 256",
                     [&] { llm.add_request(prompts[0], unknown); });
}

TEST(LLM, AChatPromptIsTheTemplates) {
  const std::vector<ChatMessage> messages{{.role = "system", .content = "Be kind."},
                                          {.role = "user", .content = "Hi"}};
  const LLM llm(demo_config());
  const Prompt prompt = llm.chat_prompt(messages);
  EXPECT_EQ(prompt.text.str(), llm.chat_template().render(messages).str());
  EXPECT_NE(prompt.text.str().find("Be kind."), std::string::npos);
  EXPECT_EQ(prompt.template_tokens, TemplateTokens::kOmit);
}

// A text gets the tokens that tokenizer.json puts around texts (Llama's BOS); a chat has them from its template.
TEST(LLM, AChatGetsNoSecondBos) {
  const test::ScratchFolder folder;
  for (const auto& file : std::filesystem::directory_iterator(test::demo_model()))
    if (file.path().filename() != "tokenizer.json")
      std::filesystem::create_symlink(file.path(), folder / file.path().filename().string());
  nlohmann::json json = nlohmann::json::parse(std::ifstream(test::demo_model() / "tokenizer.json"));
  json["post_processor"] = nlohmann::json::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [], "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [6135], "tokens": ["x"]}}})");
  folder.write("tokenizer.json", json.dump());
  LLM llm({.model = folder.path(), .num_threads = 1});
  const int text_tokens = int(llm.tokenizer()->encode("Once upon a time").size());
  const std::vector<Prompt> prompts{Prompt("Once upon a time"),
                                    Prompt(PromptText("Once upon a time", Origin::kTemplate))};
  const auto completions = llm.generate(prompts, std::vector<SamplingParams>(2, {.max_tokens = 1}));
  EXPECT_EQ(completions[0].num_prompt_tokens, text_tokens + 1);
  EXPECT_EQ(completions[1].num_prompt_tokens, text_tokens);
}

// config.json, generation_config.json and the tokenizer each may name tokens that end a text.
TEST(LLM, EveryNamedEosEndsAText) {
  LLM llm(demo_config());
  const TokenId im_end = *llm.tokenizer()->find("<|im_end|>"),
                end_of_text = *llm.tokenizer()->find("<|endoftext|>");
  EXPECT_EQ(llm.generation_config().eos_token_ids, (std::vector<TokenId>{im_end, end_of_text}));
  EXPECT_EQ(llm.model_config().eos_token_ids, (std::vector<TokenId>{im_end}));
  const PromptText text =
      llm.chat_template().render(std::vector<ChatMessage>{{"user", "Hello!"}}, {.enable_thinking = false});
  const std::vector<Prompt> prompts{Prompt(text)};
  const Completion c =
      llm.generate(prompts, std::vector<SamplingParams>{{.temperature = 0, .max_tokens = 100}})[0];
  EXPECT_EQ(c.finish_reason, FinishReason::kStop);
  EXPECT_EQ(c.token_ids.back(), im_end);
  const Completion longer = llm.generate(
      prompts, std::vector<SamplingParams>{{.temperature = 0, .max_tokens = 100, .ignore_eos = true}})[0];
  EXPECT_EQ(longer.token_ids.size(), 100u);
}

TEST(LLM, ModelsWithoutTokenizerTakeTokenIdsOnly) {
  LLM llm({.model = test::golden("qwen3-untied-f32"), .num_threads = 1});
  test::expect_error(ErrorKind::kRequest, "has no tokenizer.json, want token ids",
                     [&] { llm.add_request(Prompt("hello"), {}); });
  test::expect_error(ErrorKind::kConfig, "has no chat template", [&] { llm.chat_template(); });
  const std::vector<Prompt> prompts{Prompt(std::vector<TokenId>{5, 6})};
  EXPECT_EQ(llm.generate(prompts, std::vector<SamplingParams>{{.max_tokens = 3, .ignore_eos = true}})[0]
                .token_ids.size(),
            3u);
}

TEST(LLM, RefusesAContextThatTheModelDoesNotHave) {
  EngineConfig config = demo_config();
  config.max_model_len = 4096;
  test::expect_error(ErrorKind::kConfig,
                     "max_model_len: is 4096, want at most 2048, as the model's config.json says",
                     [&] { LLM llm(config); });
}

TEST(LLM, RefusesATokenizerThatIsTooLarge) {
  const test::ScratchFolder folder;
  for (const auto& entry : std::filesystem::directory_iterator(test::golden("qwen3-tied-bf16")))
    std::filesystem::create_symlink(entry.path(), folder / entry.path().filename().string());
  std::filesystem::create_symlink(test::demo_model() / "tokenizer.json", folder / "tokenizer.json");
  test::expect_error(ErrorKind::kConfig, "the tokenizer has 6144 tokens, want at most vocab_size=320",
                     [&] { LLM llm({.model = folder.path()}); });
}

TEST(LLM, ASeedGivesTheSameAnswerAndNoneADifferentOne) {
  LLM llm(demo_config());
  const std::vector<Prompt> prompts(3, Prompt("Once upon a time"));
  const auto answers = [&](std::optional<uint64_t> seed) {
    return llm.generate(prompts,
                        std::vector<SamplingParams>{{.temperature = 1, .seed = seed, .max_tokens = 30}});
  };
  const std::vector<Completion> seeded = answers(5), free = answers({});
  EXPECT_EQ(seeded[0].token_ids, seeded[1].token_ids);
  EXPECT_NE(free[0].token_ids, free[1].token_ids);
  EXPECT_EQ(answers(free[0].seed)[2].token_ids, free[0].token_ids);  // the seed that was drawn is told
}

}  // namespace
}  // namespace nanovllm
