#include "cli/inspect.h"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "llm/runner_config.h"
#include "models/module_tree.h"
#include "runtime/model_runner.h"
#include "tensor/machine.h"

namespace nanovllm::cli {
namespace {

using nlohmann::ordered_json;

struct Totals {
  int64_t parameters = 0;
  size_t bytes = 0;

  void add(const Parameter& parameter) {
    parameters += parameter.rows() * parameter.in_features();
    bytes += parameter.bytes();
  }
};

Totals totals_of(const Module& module) {
  Totals totals;
  for (const Parameter* parameter : module.parameters) totals.add(*parameter);
  for (const Module& child : module.children) {
    const Totals more = totals_of(child);
    totals.parameters += more.parameters;
    totals.bytes += more.bytes;
  }
  return totals;
}

std::string megabytes(size_t bytes) {
  char text[40];
  std::snprintf(text, sizeof text, bytes < 1000000 ? "%.1f kB" : "%.1f MB",
                double(bytes) / (bytes < 1000000 ? 1e3 : 1e6));
  return text;
}

std::string millions(int64_t count) {
  if (count >= 1000000) {
    char text[40];
    std::snprintf(text, sizeof text, "%.1f M", double(count) / 1e6);
    return text;
  }
  std::string text = std::to_string(count);
  if (text.size() > 3) text.insert(text.size() - 3, ",");
  return text;
}

bool is_matrix(const Parameter& parameter) { return parameter.weight().defined(); }
DType dtype_of(const Parameter& parameter) {
  return is_matrix(parameter) ? parameter.weight().dtype : DType::kF32;
}

// "q_proj" of "model.layers.0.self_attn.q_proj.weight"
std::string part_name(const std::string& tensor) {
  const size_t end = tensor.rfind('.'), begin = tensor.rfind('.', end - 1);
  return tensor.substr(begin + 1, end - begin - 1);
}

// "[4096, 1024] bf16   q_proj, k_proj, v_proj + bias"
std::string describe_parameters(const Module& module) {
  std::string text;
  for (const Parameter* parameter : module.parameters) {
    if (!text.empty()) {
      text += " + bias";
      continue;
    }
    text = "[" + std::to_string(parameter->rows());
    if (is_matrix(*parameter)) text += ", " + std::to_string(parameter->in_features());
    text += "] " + std::string(dtype_name(dtype_of(*parameter)));
    if (parameter->parts().size() > 1)
      for (const ParameterPart& part : parameter->parts())
        text += (&part == &parameter->parts().front() ? "   " : ", ") + part_name(part.name);
  }
  return text;
}

struct Line {
  int depth;
  std::string text, right;

  bool operator==(const Line&) const = default;
};

void add_lines(const Module& module, int depth, std::vector<Line>& lines);

// Children that look alike are told once: "layers 0-27: 28 x Qwen3DecoderLayer".
void add_children(const Module& module, int depth, std::vector<Line>& lines) {
  const auto body_of = [&](const Module& child) {
    std::vector<Line> body;
    add_children(child, depth + 1, body);
    return body;
  };
  const auto& children = module.children;
  for (size_t first = 0, end; first < children.size(); first = end) {
    end = first + 1;
    if (!children[first].name.starts_with("layers.")) {
      add_lines(children[first], depth, lines);
      continue;
    }
    const std::vector<Line> body = body_of(children[first]);
    while (end < children.size() && children[end].name.starts_with("layers.") &&
           body_of(children[end]) == body)
      ++end;
    const size_t begin_index = first, count = end - first;
    const int64_t index = std::stoll(children[begin_index].name.substr(7));
    lines.push_back({depth,
                     "layers " + std::to_string(index) + "-" + std::to_string(index + int64_t(count) - 1) +
                         ": " + std::to_string(count) + " x " + children[first].type,
                     millions(totals_of(children[first]).parameters) + " parameters each"});
    lines.insert(lines.end(), body.begin(), body.end());
  }
}

void add_lines(const Module& module, int depth, std::vector<Line>& lines) {
  std::string right = describe_parameters(module);
  if (right.empty() && module.type == ParallelLMHead::kType) right = "tied to model.embed_tokens";
  lines.push_back({depth, (module.name.empty() ? "" : module.name + ": ") + module.type, std::move(right)});
  add_children(module, depth + 1, lines);
}

void print_lines(const std::vector<Line>& lines) {
  size_t width = 0;
  for (const Line& line : lines)
    if (!line.right.empty()) width = std::max(width, size_t(2 * line.depth) + line.text.size());
  for (const Line& line : lines) {
    std::string text = std::string(size_t(2 * line.depth), ' ') + line.text;
    if (!line.right.empty()) text.resize(width + 2, ' ');
    std::cout << text << line.right << "\n";
  }
}

ordered_json to_json(const Module& module) {
  ordered_json json{{"name", module.name}, {"type", module.type}};
  for (const Parameter* parameter : module.parameters) {
    ordered_json tensors = ordered_json::array();
    for (const ParameterPart& part : parameter->parts()) tensors.push_back(part.name);
    ordered_json shape{parameter->rows()};
    if (is_matrix(*parameter)) shape.push_back(parameter->in_features());
    json["parameters"].push_back({{"tensors", tensors},
                                  {"shape", shape},
                                  {"dtype", dtype_name(dtype_of(*parameter))},
                                  {"bytes", parameter->bytes()}});
  }
  for (const Module& child : module.children) json["children"].push_back(to_json(child));
  return json;
}

void print_memory(const ModelRunner& runner, const RunnerConfig& config) {
  const MemoryPlan& plan = runner.memory_plan();
  std::cout << "\nMemory" << (config.tensor_parallel_size > 1 ? ", all ranks together" : "") << "\n"
            << "  weights       " << megabytes(plan.weight_bytes) << ", with the rope table\n"
            << "  activations   " << megabytes(plan.activation_bytes) << ": the largest step, of "
            << config.max_num_batched_tokens << " tokens and " << config.max_num_seqs << " sequences\n";
  if (plan.driver_bytes > 0)
    std::cout << "  driver        " << megabytes(plan.driver_bytes)
              << ": code of kernels, recorded steps, whole pages\n";
  std::cout << "  KV cache      " << megabytes(plan.kv_block_bytes * size_t(plan.num_blocks)) << ": "
            << plan.num_blocks << " blocks of " << config.block_size << " tokens, "
            << megabytes(plan.kv_block_bytes / size_t(config.block_size)) << " a token\n";
}

void print_ranks(const ModelRunner& runner, int size) {
  if (size == 1) return;
  std::cout << "\nRanks (above: rank 0)\n";
  for (int rank = 0; rank < size; ++rank) {
    const Totals totals = totals_of(module_tree(runner.model(rank)));
    std::cout << "  " << rank << "   " << millions(totals.parameters) << " parameters, "
              << megabytes(totals.bytes) << ", " << runner.model(rank).num_kv_heads() << " kv heads\n";
  }
}

ordered_json describe(const InspectOptions& options, const ModelRunner& runner, const RunnerConfig& config) {
  const MemoryPlan& plan = runner.memory_plan();
  const Decoder& model = runner.model();
  ordered_json ranks = ordered_json::array(), ops = ordered_json::object();
  for (int rank = 0; rank < config.tensor_parallel_size; ++rank) {
    const Module tree = module_tree(runner.model(rank));
    const Totals totals = totals_of(tree);
    ranks.push_back({{"rank", rank},
                     {"parameters", totals.parameters},
                     {"bytes", totals.bytes},
                     {"num_kv_heads", runner.model(rank).num_kv_heads()},
                     {"modules", to_json(tree)}});
  }
  for (const auto& [op, kernel] : runner.ops().kernels) ops[std::string(op)] = kernel;
  return {
      {"model", options.model_name},
      {"architecture", runner.model().config().architecture},
      {"tied_embeddings", model.lm_head().weight().data == model.embed_tokens().parameter().weight().data},
      {"max_model_len", config.max_model_len},
      {"memory",
       {{"weight_bytes", plan.weight_bytes},
        {"activation_bytes", plan.activation_bytes},
        {"input_bytes", plan.input_bytes},
        {"driver_bytes", plan.driver_bytes},
        {"kv_bytes_per_token", plan.kv_block_bytes / size_t(config.block_size)},
        {"block_size", config.block_size},
        {"num_blocks", plan.num_blocks}}},
      {"backend", runner.ops().backend},
      {"instruction_set", runner.ops().instruction_set},
      {"ops", ops},
      {"ranks", ranks}};
}

}  // namespace

int run_inspect(const InspectOptions& options) {
  const ModelConfig model_config = read_model_config(options.engine.model);
  const RunnerConfig config = make_runner_config(options.engine, model_config);
  const ModelRunner runner(options.engine.model, model_config, config);
  if (options.json) {
    std::cout << describe(options, runner, config).dump(2) << "\n";
    return 0;
  }
  std::vector<Line> lines;
  const Module tree = module_tree(runner.model());
  add_lines(tree, 0, lines);
  const Totals totals = totals_of(tree);
  lines[0].right = millions(totals.parameters) + " parameters, " + megabytes(totals.bytes);
  print_lines(lines);
  print_ranks(runner, config.tensor_parallel_size);
  print_memory(runner, config);
  std::cout << "\nOps on " << runner.ops().backend << ", " << runner.ops().instruction_set << "\n";
  for (const auto& [op, kernel] : runner.ops().kernels)
    std::printf("  %-14.*s%.*s\n", int(op.size()), op.data(), int(kernel.size()), kernel.data());
  return 0;
}

}  // namespace nanovllm::cli
