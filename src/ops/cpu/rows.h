// Work that is the same for every row: cut into runs of rows large enough to be worth a thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/thread_pool.h"

namespace nanovllm::cpu {

// Calls body(row) for each row. Below about 16k elements in all, waking a thread costs more than it saves.
template <class Body>
void for_each_row(ThreadPool& threads, int64_t num_rows, int64_t elements_per_row, const Body& body) {
  constexpr int64_t kElementsPerTask = 16 << 10;
  const int64_t rows_per_task =
      std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, elements_per_row));
  const int64_t num_tasks = (num_rows + rows_per_task - 1) / rows_per_task;
  threads.run(num_tasks, [&](int64_t task) {
    const int64_t end = std::min(num_rows, (task + 1) * rows_per_task);
    for (int64_t row = task * rows_per_task; row < end; ++row) body(row);
  });
}

}  // namespace nanovllm::cpu
