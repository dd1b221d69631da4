#include "cli/prompts.h"

#include "support.h"

namespace nanovllm::cli {
namespace {

TEST(Prompts, TextHasOneALine) {
  const test::ScratchFolder folder;
  const std::vector<PromptLine> lines =
      read_prompts(folder.write("p.txt", "one\r\n\ntwo {\"prompt\": 1}\nthree"));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].text, "one");
  EXPECT_EQ(lines[1].text, "two {\"prompt\": 1}");
  EXPECT_EQ(lines[2].text, "three");
}

TEST(Prompts, JsonlHasPromptsIdsMessagesAndParameters) {
  const test::ScratchFolder folder;
  const std::vector<PromptLine> lines = read_prompts(folder.write(
      "p.jsonl",
      "{\"prompt\": \"a\\nb\", \"temperature\": 0.5, \"top_k\": 3, \"top_p\": 0.9, \"min_p\": 0.25, "
      "\"seed\": 18446744073709551615, "
      "\"max_tokens\": 7, \"ignore_eos\": true, \"stop_token_ids\": [1, 2], \"stop\": \"a\", "
      "\"include_stop_str_in_output\": true, \"skip_special_tokens\": false, "
      "\"detokenize\": false}\n"
      "{\"prompt\": [5, 6], \"stop\": [\"a\", \"b c\"]}\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n"));
  ASSERT_EQ(lines.size(), 3u);
  for (const PromptLine& line : lines) EXPECT_EQ(line.error, "");
  EXPECT_EQ(lines[0].text, "a\nb");
  EXPECT_EQ(lines[0].sampling.temperature, 0.5f);
  EXPECT_EQ(lines[0].sampling.top_k, 3);
  EXPECT_EQ(lines[0].sampling.top_p, 0.9f);
  EXPECT_EQ(lines[0].sampling.min_p, 0.25f);
  EXPECT_EQ(lines[0].sampling.seed, ~uint64_t{0});
  EXPECT_EQ(lines[0].sampling.max_tokens, 7);
  EXPECT_EQ(lines[0].sampling.ignore_eos, true);
  EXPECT_EQ(lines[0].sampling.stop_token_ids, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(lines[0].sampling.stop, std::vector<std::string>{"a"});
  EXPECT_EQ(lines[0].sampling.include_stop_str_in_output, true);
  EXPECT_EQ(lines[0].sampling.skip_special_tokens, false);
  EXPECT_EQ(lines[0].sampling.detokenize, false);
  EXPECT_EQ(lines[1].token_ids, (std::vector<TokenId>{5, 6}));
  EXPECT_EQ(lines[1].sampling.stop, (std::vector<std::string>{"a", "b c"}));
  EXPECT_FALSE(lines[1].sampling.ignore_eos || lines[1].sampling.detokenize);
  ASSERT_TRUE(lines[2].messages);
  EXPECT_EQ(lines[2].messages->items()[0].as_dict().find("content")->text(), "hi");
}

TEST(Prompts, ABadLineSaysWhatIsWrongAndWhere) {
  const auto error = [](const std::string& json) { return parse_prompt_line(json, "p.jsonl:3").error; };
  EXPECT_NE(error("{").find("p.jsonl:3: is not JSON"), std::string::npos);
  EXPECT_EQ(error("[]"), "p.jsonl:3: is array, want a JSON object");
  EXPECT_EQ(error("{}"), "p.jsonl:3: has neither prompt nor messages, want one of them");
  EXPECT_EQ(error(R"({"prompt": "a", "messages": []})"),
            "p.jsonl:3: has both prompt and messages, want one of them");
  EXPECT_EQ(error(R"({"prompt": 5})"), "p.jsonl:3: prompt is 5, want a list of token ids");
  EXPECT_EQ(error(R"({"prompt": [1.5]})"), "p.jsonl:3: prompt is [1.5], want a list of token ids");
  EXPECT_EQ(error(R"({"prompt": [99999999999]})"),
            "p.jsonl:3: prompt is [99999999999], want a list of token ids");
  EXPECT_EQ(error(R"({"messages": []})"), "p.jsonl:3: messages: is empty, want a list of messages");
  EXPECT_NE(error(R"({"messages": [{"content": "a"}]})").find("messages[0]: has no role"), std::string::npos);
  EXPECT_EQ(error(R"({"prompt": "a", "temperature": "hot"})"),
            "p.jsonl:3: temperature is \"hot\", want a number");
  EXPECT_EQ(error(R"({"prompt": "a", "top_k": 1.5})"), "p.jsonl:3: top_k is 1.5, want a whole number");
  EXPECT_EQ(error(R"({"prompt": "a", "seed": -1})"), "p.jsonl:3: seed is -1, want a whole number, 0 or more");
  EXPECT_EQ(error(R"({"prompt": "a", "ignore_eos": 1})"), "p.jsonl:3: ignore_eos is 1, want true or false");
  EXPECT_EQ(error(R"({"prompt": "a", "stop_token_ids": 1})"),
            "p.jsonl:3: stop_token_ids is 1, want a list of token ids");
  EXPECT_EQ(error(R"({"prompt": "a", "stop": ["a", 1]})"),
            "p.jsonl:3: stop is [\"a\",1], want a string or a list of strings");
  EXPECT_EQ(error(R"({"prompt": "a", "detokenize": 0})"), "p.jsonl:3: detokenize is 0, want true or false");
}

// A template may print tool calls: their keys stay in order and their numbers as they were written.
TEST(ParsePromptLine, MessagesAreNotRewritten) {
  const PromptLine line = parse_prompt_line(
      R"({"messages": [{"role": "user", "content": "a", "z": {"y": 1, "b": 123456789012345678901234567890}}]})",
      "p");
  ASSERT_TRUE(line.messages);
  const jinja::Value printed = *line.messages->items()[0].as_dict().find("z");
  EXPECT_EQ(printed.as_dict().items()[0].first.text(), "y");
  EXPECT_EQ(printed.as_dict().items()[1].second.text(), "123456789012345678901234567890");
}

}  // namespace
}  // namespace nanovllm::cli
