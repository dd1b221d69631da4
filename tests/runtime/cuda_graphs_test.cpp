#include "runtime/cuda_graphs.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace nanovllm {
namespace {

// What a backend that records was asked to do, in order.
struct Recorder {
  std::string log;
  static Recorder& of(void* state) { return *static_cast<Recorder*>(state); }
};

DeviceQueue recording_queue() {
  DeviceQueue queue = host_queue();
  queue.begin_graph = [](void* state) { Recorder::of(state).log += "begin "; };
  queue.end_graph = [](void* state) -> void* {
    Recorder::of(state).log += "end ";
    return new std::string(Recorder::of(state).log);
  };
  queue.cancel_graph = [](void* state) { Recorder::of(state).log += "cancel "; };
  queue.launch_graph = [](void* state, void*) { Recorder::of(state).log += "launch "; };
  queue.release_graph = [](void* graph) { delete static_cast<std::string*>(graph); };
  return queue;
}

TEST(CudaGraphs, SizesArePaddedToFew) {
  const DeviceQueue queue = recording_queue();
  Recorder recorder;
  const CudaGraphs graphs(queue, &recorder, 300, true);
  for (const auto& [num_seqs, want] : {std::pair(1, 1),
                                       {7, 7},
                                       {8, 8},
                                       {9, 16},
                                       {16, 16},
                                       {17, 24},
                                       {250, 256},
                                       {257, 272},
                                       {289, 300},
                                       {300, 300}})
    EXPECT_EQ(graphs.padded_size(num_seqs), want) << num_seqs;
  EXPECT_EQ(CudaGraphs(queue, &recorder, 20, true).padded_size(18), 20);
  EXPECT_EQ(CudaGraphs(queue, &recorder, 1000, true).padded_size(513), 0);

  EXPECT_EQ(graphs.num_sizes(), 8 + 31 + 3);
  EXPECT_EQ(CudaGraphs(queue, &recorder, 20, true).num_sizes(), 8 + 2);
  EXPECT_EQ(CudaGraphs(queue, &recorder, 1000, true).num_sizes(), 8 + 31 + 16);
  EXPECT_EQ(CudaGraphs(queue, &recorder, 300, false).num_sizes(), 0);
}

TEST(CudaGraphs, ASizeIsReplayedOnceItWasRecorded) {
  const DeviceQueue queue = recording_queue();
  Recorder recorder;
  CudaGraphs graphs(queue, &recorder, 8, true);
  EXPECT_FALSE(graphs.replay(4));
  graphs.record(4, [&] { recorder.log += "step "; });
  EXPECT_TRUE(graphs.replay(4));
  EXPECT_FALSE(graphs.replay(5));
  EXPECT_EQ(recorder.log, "begin step end launch ");
}

TEST(CudaGraphs, AFailureToRecordIsSaidAndStepsGoOnWithout) {
  const DeviceQueue queue = recording_queue();
  Recorder recorder;
  CudaGraphs graphs(queue, &recorder, 8, true);
  graphs.record(3, [] {});
  testing::internal::CaptureStderr();
  graphs.record(4, [] { fail(ErrorKind::kDevice, "no memory"); });
  EXPECT_NE(testing::internal::GetCapturedStderr().find("without CUDA graphs, slower: no memory"),
            std::string::npos);
  EXPECT_FALSE(graphs.enabled());
  EXPECT_FALSE(graphs.replay(3));
  EXPECT_FALSE(graphs.replay(4));
  EXPECT_EQ(recorder.log, "begin end begin cancel ");
}

TEST(CudaGraphs, ABackendWithoutThemAndAUserWhoWantsNoneHaveNone) {
  Recorder recorder;
  const DeviceQueue plain = host_queue(), queue = recording_queue();
  EXPECT_FALSE(CudaGraphs(plain, &recorder, 8, true).enabled());
  EXPECT_FALSE(CudaGraphs(queue, &recorder, 8, false).enabled());
  EXPECT_TRUE(CudaGraphs(queue, &recorder, 8, true).enabled());
}

}  // namespace
}  // namespace nanovllm
