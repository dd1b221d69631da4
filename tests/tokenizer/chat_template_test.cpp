// Whole templates: the demo model's, Qwen3's, and forty published ones, against what transformers renders.
#include "tokenizer/chat_template.h"

#include <map>
#include <thread>

#include "base/file.h"
#include "jinja_render.h"

namespace nanovllm {
namespace {

using jinja::Dict;
using jinja::parse_json;
using jinja::Value;
using test::expect_error;
using test::new_year;

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
    EXPECT_EQ(chat_template->render(messages, options).str(), at(row, "rendered").text());
  }
}

TEST(ChatTemplate, RendersQwen3AsTransformersDoes) {
  const std::filesystem::path folder = test::qwen3_tokenizer_dir();
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no reference data";
  const auto chat_template = ChatTemplate::load(folder);
  ASSERT_TRUE(chat_template);
  const std::vector<Value> rows = json_lines(folder / "chat.jsonl");
  EXPECT_GT(rows.size(), 10u);
  for (const Value& row : rows) {
    Dict variables = at(row, "kwargs").as_dict();
    variables.set("messages", at(row, "messages"));
    variables.set("tools", at(row, "tools"));
    EXPECT_EQ(chat_template->render(Value::dict(variables)).str(), at(row, "rendered").text());
  }
}

// What a row of expected.jsonl renders to; continue_final_message cuts afterwards and is not the template's
// business.
TEST(ChatTemplate, RendersPublishedTemplatesAsTransformersDoes) {
  const std::filesystem::path folder = test::chat_templates_dir();
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
      rendered = templates.at(at(row, "template").text()).render(Value::dict(variables), new_year()).str();
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
  const std::vector<Value> rows = json_lines(test::golden("templates") / "snippets.jsonl");
  EXPECT_GT(rows.size(), 500u);
  for (const Value& row : rows) {
    const std::string& source = at(row, "source").text();
    const Value* error = row.as_dict().find("error");
    try {
      const std::string rendered =
          ChatTemplate(source, "snippet").render(at(row, "context"), new_year()).str();
      EXPECT_FALSE(error) << source << ": no error, want " << error->text();
      if (!error) {
        EXPECT_EQ(rendered, at(row, "rendered").text()) << source;
      }
    } catch (const Error& failure) {
      EXPECT_TRUE(error) << source << ": " << failure.what();
    }
  }
}

// Qwen3's template keeps the thinking of the running tool loop and drops that of turns that are over.
TEST(ChatTemplate, ThinkingIsKeptInTheToolLoopOnly) {
  const std::filesystem::path folder = test::qwen3_tokenizer_dir();
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no reference data";
  const auto chat_template = *ChatTemplate::load(folder);
  const std::string call = R"("tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}])";
  for (const std::string first :
       {R"("content": "<think>\nA\n</think>\n\n")", R"("content": "", "reasoning_content": "A")"}) {
    const std::string loop = R"([{"role": "user", "content": "q"}, {"role": "assistant", )" + first + ", " +
                             call + R"(}, {"role": "tool", "content": "r"})";
    const auto render = [&](const std::string& more) {
      return chat_template.render(parse_json("{\"messages\": " + loop + more + "]}")).str();
    };
    const std::string kept =
        "<|im_start|>assistant\n<think>\nA\n</think>\n\n<tool_call>\n{\"name\": \"f\", "
        "\"arguments\": {\"a\": 1}}\n</tool_call><|im_end|>\n";
    EXPECT_NE(render("").find(kept), std::string::npos);
    const std::string over = render(
        R"(, {"role": "assistant", "content": "<think>\nB\n</think>\n\nd"}, {"role": "user", "content": "e"})");
    EXPECT_EQ(over.find("<think>"), std::string::npos);
    EXPECT_NE(over.find("<|im_start|>assistant\nd<|im_end|>\n<|im_start|>user\ne"), std::string::npos);
  }
}

// Content may be absent, null, a text, or parts of text, as in OpenAI's API.
TEST(ChatMessages, ContentOfEveryKind) {
  const std::string calls = R"("tool_calls": [{"function": {"name": "f", "arguments": {}}}]})";
  std::vector<std::filesystem::path> folders{test::demo_model()};
  if (std::filesystem::exists(test::qwen3_tokenizer_dir())) folders.push_back(test::qwen3_tokenizer_dir());
  for (const std::filesystem::path& folder : folders) {
    const auto chat_template = *ChatTemplate::load(folder);
    const auto render = [&](const std::string& content) {
      return chat_template
          .render_messages(prepare_messages(parse_json(
              R"([{"role": "user", "content": "q"}, {"role": "assistant", )" + content + calls + "]")))
          .str();
    };
    const std::string want = render(R"("content": "", )");
    EXPECT_EQ(render(""), want);
    EXPECT_EQ(render(R"("content": null, )"), want);
    EXPECT_EQ(render(R"("content": [], )"), want);
    EXPECT_EQ(render(R"("content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], )"),
              render(R"("content": "a\nb", )"));
  }
}

TEST(ChatMessages, WhatIsNoMessageIsNamed) {
  const auto expect_refused = [](const char* messages, std::string_view part) {
    expect_error(ErrorKind::kRequest, part, [&] { prepare_messages(parse_json(messages)); });
  };
  expect_refused("[]", "messages: is empty, want a list of messages");
  expect_refused("{}", "messages: is dict, want a list of messages");
  expect_refused("[3]", "messages[0]: has no role");
  expect_refused(R"([{"role": "user", "content": "a"}, {"content": "a"}])", "messages[1]: has no role");
  expect_refused(R"([{"role": "", "content": "a"}])", "messages[0]: has no role");
  expect_refused(R"([{"role": "user", "content": 5}])", "messages[0].content: is int, want a text");
  expect_refused(
      R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]}])",
      "messages[0].content[1]: is type image_url, want {\"type\": \"text\"");
  expect_refused(R"([{"role": "user", "content": ["a"]}])", "messages[0].content[0]: is a value of type str");
}

constexpr std::string_view kSmall =
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

TEST(ChatTemplate, LoadsFromAJinjaFileFirst) {
  const test::ScratchFolder folder;
  EXPECT_FALSE(ChatTemplate::load(folder.path()));
  folder.write("tokenizer_config.json",
               R"({"bos_token": null, "eos_token": {"content": "</s>"}, "other": 1})");
  EXPECT_FALSE(ChatTemplate::load(folder.path()));
  folder.write("chat_template.jinja", kSmall);
  const std::vector<ChatMessage> messages = {{"user", "hi"}};
  EXPECT_EQ(ChatTemplate::load(folder.path())->render(messages).str(), "[user]hi</s>[assistant]");
  folder.write("tokenizer_config.json",
               R"({"bos_token": "<s>", "eos_token": "</s>", "chat_template": "no"})");
  EXPECT_EQ(ChatTemplate::load(folder.path())->render(messages, {.add_generation_prompt = false}).str(),
            "<s>[user]hi</s>");
}

TEST(ChatTemplate, LoadsTheDefaultOfAList) {
  const test::ScratchFolder folder;
  folder.write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]})");
  EXPECT_EQ(ChatTemplate::load(folder.path())->render(std::vector<ChatMessage>{}).str(), "b");
}

TEST(ChatTemplate, BadFilesAreToldByName) {
  const test::ScratchFolder folder;
  const auto expect_config_error = [&](std::string_view config, std::string_view part) {
    folder.write("tokenizer_config.json", config);
    expect_error(ErrorKind::kConfig, part, [&] { ChatTemplate::load(folder.path()); });
  };
  expect_config_error("{", "tokenizer_config.json: JSON: byte");
  expect_config_error("[1]", "tokenizer_config.json: a value of type list, want an object");
  expect_config_error(R"({"chat_template": 5})",
                      "tokenizer_config.json: chat_template is int, want a text or a list");
  expect_config_error(R"({"chat_template": [{"name": "x", "template": "y"}, 3]})",
                      "want an entry with \"name\": \"default\"");
  expect_config_error(R"({"chat_template": "\n{{"})",
                      "tokenizer_config.json(chat_template):2:1: a tag has no end");
}

TEST(ChatTemplate, ToolsAndDocumentsAreNoneWhenAbsent) {
  const ChatTemplate parsed(
      "{{ tools }}{{ documents is none }}{{ messages is defined }}{{ enable_thinking is defined }}", "t");
  EXPECT_EQ(parsed.render(parse_json("{}")).str(), "NoneTrueFalseFalse");
  EXPECT_EQ(parsed.render(parse_json(R"({"tools": [1]})")).str(), "[1]TrueFalseFalse");
  EXPECT_EQ(parsed.render(std::vector<ChatMessage>{}, {.enable_thinking = false}).str(), "NoneTrueTrueTrue");
}

TEST(ChatTemplate, ErrorsOfARenderAreTheRequests) {
  const ChatTemplate parsed(
      "{% if messages[0].role != 'user' %}\n  {{ raise_exception('Begin with the user') }}{% endif %}", "t");
  expect_error(ErrorKind::kRequest, "t:2:6: Begin with the user", [&] {
    parsed.render(std::vector<ChatMessage>{{"assistant", "x"}});
  });
  expect_error(ErrorKind::kRequest, "the variables of a chat template are list, want a dict",
               [&] { parsed.render(parse_json("[]")); });
}

TEST(ChatTemplate, ThreadsMayShareIt) {
  const ChatTemplate parsed(kSmall, "t");
  const Value variables =
      parse_json(R"({"messages": [{"role": "user", "content": "hi"}], "bos_token": "<s>"})");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 200; ++k) EXPECT_EQ(parsed.render(variables).str(), "<s>[user]hi");
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace nanovllm
