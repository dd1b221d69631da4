// Text to token ids, on one core: megabytes of UTF-8 a second, and the time to load a tokenizer.
//
//   english          this project's documentation
//   code             this project's C++ sources
//   chinese          words of the tokenizer's own vocabulary, the frequent ones more often (1 / rank), in
//                    sentences of 4 to 16 words: no Chinese prose is at hand that could be given away
//   no_space_ratio   the time of 2 MB without a space by that of 1 MB
//   load             seconds from the files to a tokenizer
//
//   bench_tokenizer FOLDER RESULT.json --commit C [--texts DIR]
//
// FOLDER holds tokenizer.json. Each text is repeated to 4 MB and encoded in pieces of 64 KB, as large prompts
// come. --texts: write the texts there, for bench/rival_tokenizers.py.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/unicode.h"
#include "report.h"
#include "tensor/machine.h"
#include "tokenizer/tokenizer.h"

namespace nanovllm::bench {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTextBytes = size_t{4} << 20;
constexpr size_t kPieceBytes = size_t{64} << 10;
constexpr int kRuns = 7;

struct Options {
  std::string folder, result, commit = "0000000", texts;
};

Options parse(int argc, char** argv) {
  Options options;
  std::vector<std::string> plain;
  for (int i = 1; i < argc; ++i) {
    const std::map<std::string, std::string*> flags{{"--commit", &options.commit},
                                                    {"--texts", &options.texts}};
    const auto flag = flags.find(argv[i]);
    if (flag == flags.end())
      plain.push_back(argv[i]);
    else if (i + 1 < argc)
      *flag->second = argv[++i];
  }
  if (plain.size() != 2)
    fail(ErrorKind::kConfig, "usage: bench_tokenizer FOLDER RESULT.json --commit C [--texts DIR]");
  options.folder = plain[0];
  options.result = plain[1];
  return options;
}

// All files below `folder` with one of the endings, in order of their names.
std::string files(const fs::path& folder, const std::vector<std::string>& endings) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (std::find(endings.begin(), endings.end(), entry.path().extension()) != endings.end())
      paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (const fs::path& path : paths) text += read_file(path);
  return text;
}

bool is_chinese(std::string_view bytes) {
  while (!bytes.empty()) {
    const Utf8Head head = utf8_head(bytes);
    if (head.kind != Utf8Head::kCharacter || head.code_point < 0x4E00 || head.code_point > 0x9FFF)
      return false;
    bytes.remove_prefix(size_t(head.length));
  }
  return true;
}

std::string chinese(const Tokenizer& tokenizer) {
  std::vector<std::string_view> words;  // ids grow as words become rarer
  for (TokenId id = 0; id < tokenizer.num_tokens(); ++id)
    if (const auto bytes = tokenizer.token_bytes(id); !bytes.empty() && is_chinese(bytes))
      words.push_back(bytes);
  if (words.empty()) return "";
  uint64_t state = 1;
  const auto random = [&] {  // in [0, 1)
    state = state * 6364136223846793005u + 1442695040888963407u;
    return double(state >> 11) * 0x1p-53;
  };
  std::string text;
  while (text.size() < kTextBytes) {
    for (int left = 4 + int(random() * 13); left > 0; --left)
      text += words[size_t(std::pow(double(words.size()), random())) - 1];
    text += random() < 0.4 ? "\u3002" : "\uff0c";
    if (random() < 0.05) text += "\n";
  }
  return text;
}

std::string repeated(const std::string& text) {
  std::string out;
  while (out.size() < kTextBytes) out += text;
  return out;
}

// Cut where a character begins.
std::vector<std::string_view> pieces(std::string_view text, size_t size) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    size_t end = std::min(size, text.size());
    while (end < text.size() && (text[end] & 0xC0) == 0x80) --end;
    out.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return out;
}

double seconds(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void measure(const Options& options) {
  Report report;
  std::vector<double> load;
  for (int i = 0; i < kRuns; ++i) load.push_back(seconds([&] { Tokenizer::load(options.folder); }));
  report.add("tokenizer.load", load, "s");

  const Tokenizer tokenizer = Tokenizer::load(options.folder);
  const std::map<std::string, std::string> texts{{"english", files("docs", {".md"})},
                                                 {"code", files("src", {".cpp", ".h"})},
                                                 {"chinese", chinese(tokenizer)}};
  for (const auto& [name, text] : texts) {
    if (text.empty()) continue;
    const std::string whole = repeated(text);
    if (!options.texts.empty()) {
      fs::create_directories(options.texts);
      std::ofstream(fs::path(options.texts) / (name + ".txt")) << whole;
    }
    std::vector<double> rates;
    for (int i = 0; i < kRuns; ++i) {
      std::string decoded;
      std::vector<std::vector<TokenId>> ids;
      const double time = seconds([&] {
        for (const std::string_view piece : pieces(whole, kPieceBytes))
          ids.push_back(tokenizer.encode(piece));
      });
      for (const auto& list : ids) decoded += tokenizer.decode(list, SpecialText::kKeep);
      if (decoded != whole) fail(ErrorKind::kConfig, name, ": decodes to another text");
      rates.push_back(double(whole.size()) / time / 1e6);
    }
    report.add("tokenizer." + name, rates, "MB/s");
  }

  std::vector<double> ratios;
  const std::string letters = repeated("Donaudampfschifffahrtsgesellschaft");
  const auto best_of_three = [&](size_t size) {  // one interruption would be most of a ratio
    double best = 1e9;
    for (int i = 0; i < 3; ++i)
      best = std::min(best, seconds([&] { tokenizer.encode(std::string_view(letters).substr(0, size)); }));
    return best;
  };
  for (int i = 0; i < kRuns; ++i) {
    const double one = best_of_three(1'000'000);
    ratios.push_back(best_of_three(2'000'000) / one);
  }
  report.add("tokenizer.no_space_ratio", ratios, "times");
  report.write(options.result, machine_name(int(std::thread::hardware_concurrency()), "one used"),
               options.commit, "build/release/bench/bench_tokenizer " + options.folder,
               "tokenizer of " + fs::path(options.folder).filename().string());
}

}  // namespace
}  // namespace nanovllm::bench

int main(int argc, char** argv) {
  return nanovllm::bench::run_benchmark(
      "bench_tokenizer", [&] { nanovllm::bench::measure(nanovllm::bench::parse(argc, argv)); });
}
