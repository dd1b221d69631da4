// Whole templates: the demo model's, Qwen3's, and forty published ones, against what transformers renders.
#include "tokenizer/chat_template.h"

#include <map>

#include "base/file.h"
#include "support.h"

namespace nanovllm {
namespace {

using jinja::Dict;
using jinja::parse_json;
using jinja::Value;

const Value& at(const Value& dict, std::string_view key) {
  const Value* found = dict.as_dict().find(key);
  if (!found) throw std::runtime_error("no " + std::string(key));
  return *found;
}

std::vector<Value> json_lines(const std::filesystem::path& path) {
  std::vector<Value> rows;
  std::string text = read_file(path);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) rows.push_back(parse_json(std::string_view(text).substr(begin, end - begin)));
    begin = end + 1;
  }
  return rows;
}

// 2025-01-01 00:00:00 local time, as in the reference data.
std::time_t new_year() {
  std::tm parts{};
  parts.tm_year = 125;
  parts.tm_mday = 1;
  parts.tm_isdst = -1;
  return std::mktime(&parts);
}

TEST(ChatTemplate, RendersTheDemoModelsChats) {
  const auto chat_template = ChatTemplate::load(test::demo_model());
  ASSERT_TRUE(chat_template);
  const Value reference = parse_json(read_file(test::demo_model() / "reference.json"));
  for (const Value& row : at(reference, "chat").items()) {
    std::vector<ChatMessage> messages;
    for (const Value& message : at(row, "messages").items())
      messages.push_back({at(message, "role").text(), at(message, "content").text()});
    ChatOptions options;
    if (const Value* thinking = at(row, "kwargs").as_dict().find("enable_thinking"))
      options.enable_thinking = thinking->as_bool();
    EXPECT_EQ(chat_template->render(messages, options), at(row, "rendered").text());
  }
}

TEST(ChatTemplate, RendersQwen3AsTransformersDoes) {
  const std::filesystem::path folder = test::shared_dir() / "qwen3-tokenizer";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no reference data";
  const auto chat_template = ChatTemplate::load(folder);
  ASSERT_TRUE(chat_template);
  const std::vector<Value> rows = json_lines(folder / "chat.jsonl");
  EXPECT_GT(rows.size(), 10u);
  for (const Value& row : rows) {
    Dict variables = at(row, "kwargs").as_dict();
    variables.set("messages", at(row, "messages"));
    variables.set("tools", at(row, "tools"));
    EXPECT_EQ(chat_template->render(Value::dict(variables)), at(row, "rendered").text());
  }
}

// What a row of expected.jsonl renders to; continue_final_message cuts afterwards and is not the template's
// business.
TEST(ChatTemplate, RendersPublishedTemplatesAsTransformersDoes) {
  const std::filesystem::path folder = test::shared_dir() / "chat-templates";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no reference data";
  std::map<std::string, ChatTemplate> templates;
  for (const auto& file : std::filesystem::directory_iterator(folder / "templates"))
    templates.emplace(file.path().stem(), ChatTemplate(read_file(file.path()), file.path().filename()));
  EXPECT_EQ(templates.size(), 40u);
  std::map<std::string, Value> conversations;
  const Value all = parse_json(read_file(folder / "conversations.json"));
  for (const Value& conversation : all.items()) conversations[at(conversation, "name").text()] = conversation;

  const std::vector<Value> rows = json_lines(folder / "expected.jsonl");
  EXPECT_GT(rows.size(), 800u);
  for (const Value& row : rows) {
    const std::string where = at(row, "template").text() + " x " + at(row, "conversation").text();
    const Value& conversation = conversations.at(at(row, "conversation").text());
    Dict variables;
    variables.set("messages", at(conversation, "messages"));
    variables.set("tools", at(conversation, "tools"));
    bool continues = false;
    for (const auto& [name, value] : at(row, "kwargs").as_dict().items()) {
      if (name.text() == "continue_final_message")
        continues = true;
      else
        variables.set(name, value);
    }
    const Value* error = row.as_dict().find("error");
    std::string rendered;
    try {
      rendered = templates.at(at(row, "template").text()).render(Value::dict(variables), new_year());
    } catch (const Error& failure) {
      EXPECT_EQ(int(failure.kind()), int(ErrorKind::kRequest)) << where;
      ASSERT_TRUE(error) << where << ": " << failure.what();
      if (at(row, "error_type").text() == "TemplateError") {
        EXPECT_TRUE(std::string_view(failure.what()).ends_with(": " + error->text())) << failure.what();
      }
      continue;
    }
    if (continues) {
      if (!error) {
        EXPECT_TRUE(rendered.starts_with(at(row, "rendered").text())) << where;
      }
      continue;
    }
    ASSERT_FALSE(error) << where << ": no error, want " << error->text();
    EXPECT_EQ(rendered, at(row, "rendered").text()) << where << at(row, "kwargs").as_dict().size();
  }
}

TEST(ChatTemplate, AnswersSmallQuestionsAsJinjaDoes) {
  const std::filesystem::path file = test::shared_dir() / "chat-templates" / "snippets.jsonl";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no reference data";
  const std::vector<Value> rows = json_lines(file);
  EXPECT_GT(rows.size(), 500u);
  for (const Value& row : rows) {
    const std::string& source = at(row, "source").text();
    const Value* error = row.as_dict().find("error");
    try {
      const std::string rendered = ChatTemplate(source, "snippet").render(at(row, "context"), new_year());
      EXPECT_FALSE(error) << source << ": no error, want " << error->text();
      if (!error) {
        EXPECT_EQ(rendered, at(row, "rendered").text()) << source;
      }
    } catch (const Error& failure) {
      EXPECT_TRUE(error) << source << ": " << failure.what();
    }
  }
}

}  // namespace
}  // namespace nanovllm
