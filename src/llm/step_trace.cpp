#include "llm/step_trace.h"

#include <array>

#include "base/error.h"

namespace nanovllm {

StepTrace::StepTrace(const std::filesystem::path& file) : file_(file), start_(Clock::now()) {
  constexpr std::array kLines{"scheduler", "launch", "device", "output"};  // in the order of Line
  file_ << "[\n";
  for (size_t i = 0; i < kLines.size(); ++i)
    file_ << R"({"name": "thread_name", "ph": "M", "pid": 1, "tid": )" << i << R"(, "args": {"name": ")"
          << kLines[i] << "\"}}" << (i + 1 < kLines.size() ? ",\n" : "");
  file_.flush();
  if (!file_) fail(ErrorKind::kDevice, "trace_steps: ", file.string(), " cannot be written");
}

StepTrace::~StepTrace() { file_ << "\n]\n"; }

void StepTrace::add(Line line, std::string_view name, Clock::time_point begin, Clock::time_point end,
                    int64_t step, int num_tokens) {
  const auto microseconds = [](Clock::duration d) {
    return std::chrono::duration_cast<std::chrono::microseconds>(d).count();
  };
  file_ << ",\n{\"name\": \"" << name << R"(", "ph": "X", "pid": 1, "tid": )" << int(line) << R"(, "ts": )"
        << microseconds(begin - start_) << R"(, "dur": )" << microseconds(end - begin)
        << R"(, "args": {"step": )" << step << R"(, "tokens": )" << num_tokens << "}}";
}

}  // namespace nanovllm
