#include "cli/schedule_view.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "cli/output.h"
#include "engine/scheduler.h"

namespace nanovllm::cli {
namespace {

// A sequence is called by a letter: A, B, and the completions of one request C and D.
using Name = char;

enum class Phase { kWaiting, kPreempted, kPrefill, kDecode };

struct SequenceView {
  Name name;
  Phase phase;
  int num_tokens, num_computed, num_scheduled;
  int num_cached;  // found in the cache when it was admitted, in the step that is shown
  std::vector<int32_t> blocks;
};

struct BlockView {
  BlockState state;
  int num_users = 0;
  Name owner = ' ';  // of several, the first
};

struct StepView {
  int num_tokens = 0;
  std::vector<SequenceView> sequences;  // running ones first
  std::vector<BlockView> blocks;
  std::vector<Name> finished;  // at the end of the step
};

class Workload {
 public:
  explicit Workload(const SchedulerLimits& limits) : scheduler_(limits, {}) {}

  std::vector<StepView> run() {
    std::vector<StepView> steps;
    constexpr int kNumRequests = 6, kStepsApart = 2;
    for (int step = 0; step < kNumRequests * kStepsApart || scheduler_.has_unfinished(); ++step) {
      if (step % kStepsApart == 0 && step / kStepsApart < kNumRequests) add(step / kStepsApart);
      const Batch& batch = scheduler_.schedule();
      steps.push_back(look(batch));
      const std::vector<TokenId> ids(size_t(batch.num_sampled()), 7);
      scheduler_.update(ids);
      for (const auto& sequence : scheduler_.take_finished())
        steps.back().finished.push_back(name_of(*sequence));
    }
    return steps;
  }

 private:
  void add(int index) {
    static constexpr int kPromptLens[] = {10, 13, 9, 26, 10, 6}, kOutputLens[] = {10, 6, 7, 5, 6, 4};
    auto sequence = std::make_unique<Sequence>();
    sequence->id = RequestId(index);
    sequence->params = {.max_tokens = kOutputLens[index], .ignore_eos = true};
    sequence->params.n = index == 2 ? 2 : 1;
    const bool same_beginning = index < 5;
    for (int i = 0; i < kPromptLens[index]; ++i)
      sequence->token_ids.push_back(same_beginning && i < 10 ? 100 + i : 1000 * (index + 1) + i);
    sequence->num_prompt_tokens = sequence->num_tokens();
    sequence->arrival_time = Clock::now();
    scheduler_.add(std::move(sequence));
  }

  Name name_of(const Sequence& sequence) {
    const auto key = std::pair(sequence.id, sequence.sample_index);
    return names_.emplace(key, Name('A' + names_.size())).first->second;
  }

  SequenceView look_at_waiting(const Sequence& s) {
    return {name_of(s),
            s.num_preemptions > 0 ? Phase::kPreempted : Phase::kWaiting,
            s.num_tokens(),
            s.num_computed_tokens,
            0,
            0,
            s.block_table};
  }

  SequenceView look_at_running(const Sequence& s) {
    const bool decodes = s.num_output_tokens() > 0 && s.num_uncomputed_tokens() == 1;
    const Name name = name_of(s);
    const bool is_new = std::find(ran_.begin(), ran_.end(), name) == ran_.end();
    return {name,
            decodes ? Phase::kDecode : Phase::kPrefill,
            s.num_tokens(),
            s.num_computed_tokens,
            s.num_scheduled_tokens,
            is_new ? s.num_computed_tokens : 0,
            s.block_table};
  }

  StepView look(const Batch& batch) {
    StepView view{.num_tokens = batch.num_tokens()};
    std::vector<const Sequence*> waiting;
    for (const auto& sequence : scheduler_.waiting()) waiting.push_back(sequence.get());
    for (const auto& sequence : scheduler_.running()) view.sequences.push_back(look_at_running(*sequence));
    for (const Sequence* sequence : waiting) view.sequences.push_back(look_at_waiting(*sequence));
    ran_.clear();
    for (const auto& sequence : scheduler_.running()) ran_.push_back(name_of(*sequence));
    const BlockManager& blocks = scheduler_.blocks();
    for (int block = 0; block < blocks.num_blocks(); ++block)
      view.blocks.push_back({blocks.state(block), blocks.num_users(block)});
    for (const SequenceView& sequence : view.sequences)
      for (const int32_t block : sequence.blocks)
        if (view.blocks[size_t(block)].owner == ' ') view.blocks[size_t(block)].owner = sequence.name;
    return view;
  }

  Scheduler scheduler_;
  std::map<std::pair<RequestId, int>, Name> names_;
  std::vector<Name> ran_;  // in the step before
};

std::string_view phase_name(Phase phase) {
  static constexpr std::string_view kNames[] = {"waiting", "preempted", "prefill", "decode"};
  return kNames[size_t(phase)];
}

// "AAB2~.": a letter is the block's owner, a number how many share it, ~ cached, . free.
std::string blocks_text(const StepView& step) {
  std::string text;
  for (const BlockView& block : step.blocks) {
    if (block.state == BlockState::kUsed)
      text += block.num_users > 1 ? char('0' + std::min(9, block.num_users)) : block.owner;
    else
      text += block.state == BlockState::kCached ? '~' : '.';
  }
  return text;
}

std::string to_text(const std::vector<StepView>& steps) {
  std::ostringstream out;
  out << "blocks: a letter is the owner, a number how many share it, ~ cached, . free\n";
  for (size_t i = 0; i < steps.size(); ++i) {
    out << "\nstep " << i << ": " << steps[i].num_tokens
        << (steps[i].num_tokens == 1 ? " token   blocks " : " tokens   blocks ") << blocks_text(steps[i])
        << "\n";
    for (const SequenceView& s : steps[i].sequences) {
      out << "  " << s.name << " " << phase_name(s.phase);
      out << std::string(11 - phase_name(s.phase).size(), ' ');
      if (s.num_scheduled > 0)
        out << "computes " << s.num_scheduled << " behind " << s.num_computed;
      else
        out << s.num_tokens << " tokens";
      if (s.num_scheduled > 0 && s.num_cached > 0) out << ", " << s.num_cached << " came from the cache";
      if (!s.blocks.empty()) out << "; blocks";
      for (const int32_t block : s.blocks) out << " " << block;
      out << "\n";
    }
    for (const Name name : steps[i].finished) out << "  " << name << " is done\n";
  }
  return out.str();
}

// ---- the picture ----

constexpr int kCell = 16, kLeft = 90, kTop = 46;

std::string color_of(Name name) {
  static constexpr const char* kColors[] = {"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1",
                                            "#e15759", "#76b7b2", "#edc948", "#9c755f"};
  return kColors[size_t(name - 'A') % std::size(kColors)];
}

class Svg {
 public:
  Svg(int width, int height) {
    out_ << R"(<svg xmlns="http://www.w3.org/2000/svg" width=")" << width << R"(" height=")" << height
         << R"(" font-family="sans-serif" font-size="11">)"
         << "\n"
         << R"(<rect width="100%" height="100%" fill="white"/>)"
         << "\n";
  }
  void rect(int x, int y, const std::string& fill, double opacity = 1, const char* stroke = "#dddddd") {
    out_ << R"(<rect x=")" << x << R"(" y=")" << y << R"(" width=")" << kCell << R"(" height=")" << kCell
         << R"(" fill=")" << fill << R"(" fill-opacity=")" << opacity << R"(" stroke=")" << stroke << R"("/>)"
         << "\n";
  }
  void text(int x, int y, const std::string& text, const char* anchor = "start",
            const char* fill = "#222222") {
    out_ << R"(<text x=")" << x << R"(" y=")" << y << R"(" text-anchor=")" << anchor << R"(" fill=")" << fill
         << R"(">)" << text << "</text>\n";
  }
  std::string str() const { return out_.str() + "</svg>\n"; }

 private:
  std::ostringstream out_;
};

void draw_sequence(Svg& svg, const SequenceView& s, int x, int y) {
  switch (s.phase) {
    case Phase::kWaiting:
      svg.rect(x, y, "#eeeeee");
      break;
    case Phase::kPreempted:
      svg.rect(x, y, "#ffffff", 1, "#cc0000");
      break;
    case Phase::kPrefill:
      svg.rect(x, y, color_of(s.name));
      break;
    case Phase::kDecode:
      svg.rect(x, y, color_of(s.name), 0.45);
      break;
  }
  if (s.num_scheduled > 0) svg.text(x + kCell / 2, y + 12, std::to_string(s.num_scheduled), "middle");
}

void draw_block(Svg& svg, const BlockView& block, int x, int y) {
  if (block.state != BlockState::kUsed)
    return svg.rect(x, y, block.state == BlockState::kCached ? "#cccccc" : "#ffffff");
  svg.rect(x, y, color_of(block.owner), 0.8, block.num_users > 1 ? "#000000" : "#dddddd");
  if (block.num_users > 1)
    svg.text(x + kCell / 2, y + 12, std::to_string(block.num_users), "middle", "#ffffff");
}

std::string to_svg(const std::vector<StepView>& steps) {
  int num_sequences = 0;
  for (const StepView& step : steps)
    for (const SequenceView& s : step.sequences) num_sequences = std::max(num_sequences, s.name - 'A' + 1);
  const int num_blocks = int(steps[0].blocks.size());
  const int blocks_top = kTop + num_sequences * kCell + 40;
  const int legend_top = blocks_top + num_blocks * kCell + 30;
  Svg svg(kLeft + std::max(int(steps.size()) * kCell, 560) + 20, legend_top + 30);
  svg.text(kLeft, 18,
           "sequences, by step: dark prefill, light decode, the number is how many tokens are computed");
  svg.text(kLeft, blocks_top - 8, "KV blocks, by step: the colour of who uses it, a number where several do");
  for (int i = 0; i < num_sequences; ++i)
    svg.text(kLeft - 8, kTop + i * kCell + 12, std::string(1, Name('A' + i)), "end");
  for (int i = 0; i < num_blocks; ++i)
    svg.text(kLeft - 8, blocks_top + i * kCell + 12, std::to_string(i), "end");
  for (size_t i = 0; i < steps.size(); ++i) {
    const int x = kLeft + int(i) * kCell;
    if (i % 5 == 0) svg.text(x + kCell / 2, kTop - 6, std::to_string(i), "middle", "#888888");
    for (const SequenceView& s : steps[i].sequences) draw_sequence(svg, s, x, kTop + (s.name - 'A') * kCell);
    for (int block = 0; block < num_blocks; ++block)
      draw_block(svg, steps[i].blocks[size_t(block)], x, blocks_top + block * kCell);
  }
  int x = kLeft;
  const auto legend = [&](const char* fill, const char* stroke, const char* what) {
    svg.rect(x, legend_top - 12, fill, 1, stroke);
    svg.text(x + kCell + 6, legend_top, what);
    x += 120;
  };
  legend("#eeeeee", "#dddddd", "waits");
  legend("#ffffff", "#cc0000", "preempted");
  legend("#cccccc", "#dddddd", "cached block");
  legend("#ffffff", "#dddddd", "free block");
  return svg.str();
}

// The workload's own requests may not fit the limits.
std::vector<StepView> run_workload(const SchedulerLimits& limits) {
  try {
    return Workload(limits).run();
  } catch (const Error& error) {
    fail(error.kind(),
         "schedule: a request of the workload that is shown does not fit the limits: ", error.what());
  }
}

}  // namespace

int run_schedule(const ScheduleOptions& options) {
  const EngineConfig& engine = options.engine;
  check_config(engine);
  constexpr int kMostBlocks = 500;
  if (engine.max_model_len < 1 || engine.max_num_batched_tokens < 1 || engine.kvcache_block_size < 1 ||
      engine.num_kvcache_blocks < 1)
    fail(ErrorKind::kConfig, "schedule: has a limit below 1, and no model or backend to ask for one");
  if (engine.num_kvcache_blocks > kMostBlocks)
    fail(ErrorKind::kConfig, "num_kvcache_blocks: is ", engine.num_kvcache_blocks, ", want at most ",
         kMostBlocks, " to look at");
  const SchedulerLimits limits{
      .max_num_seqs = engine.max_num_seqs,
      .max_num_batched_tokens = engine.max_num_batched_tokens,
      .max_model_len = engine.max_model_len,
      .num_blocks = engine.num_kvcache_blocks,
      .block_size = engine.kvcache_block_size,
      .prefix_caching = engine.prefix_caching ? PrefixCaching::kOn : PrefixCaching::kOff};
  const std::vector<StepView> steps = run_workload(limits);
  std::cout << "max_num_seqs " << limits.max_num_seqs << ", max_num_batched_tokens "
            << limits.max_num_batched_tokens << ", " << limits.num_blocks << " blocks of "
            << limits.block_size << " tokens, prefix caching " << (engine.prefix_caching ? "on" : "off")
            << "\n"
            << to_text(steps);
  if (!options.svg.empty()) Output(options.svg.string()).write(to_svg(steps));
  return 0;
}

}  // namespace nanovllm::cli
