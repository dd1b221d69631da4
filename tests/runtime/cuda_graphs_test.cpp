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

OpTable recording_ops() {
  OpTable ops;
  ops.begin_graph = [](void* state) { Recorder::of(state).log += "begin "; };
  ops.end_graph = [](void* state) -> void* {
    Recorder::of(state).log += "end ";
    return new std::string(Recorder::of(state).log);
  };
  ops.cancel_graph = [](void* state) { Recorder::of(state).log += "cancel "; };
  ops.launch_graph = [](void* state, void*) { Recorder::of(state).log += "launch "; };
  ops.release_graph = [](void* graph) { delete static_cast<std::string*>(graph); };
  return ops;
}

TEST(CudaGraphs, SizesArePaddedToFew) {
  const OpTable ops = recording_ops();
  Recorder recorder;
  const CudaGraphs graphs(ops, &recorder, 300, true);
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
  EXPECT_EQ(CudaGraphs(ops, &recorder, 20, true).padded_size(18), 20);
}

TEST(CudaGraphs, ASizeIsReplayedOnceItWasRecorded) {
  const OpTable ops = recording_ops();
  Recorder recorder;
  CudaGraphs graphs(ops, &recorder, 8, true);
  EXPECT_FALSE(graphs.replay(4));
  graphs.record(4, [&] { recorder.log += "step "; });
  EXPECT_TRUE(graphs.replay(4));
  EXPECT_FALSE(graphs.replay(5));
  EXPECT_EQ(recorder.log, "begin step end launch ");
}

TEST(CudaGraphs, AStepThatFailsIsNotRecorded) {
  const OpTable ops = recording_ops();
  Recorder recorder;
  CudaGraphs graphs(ops, &recorder, 8, true);
  EXPECT_THROW(graphs.record(4, [] { fail(ErrorKind::kDevice, "no"); }), Error);
  EXPECT_FALSE(graphs.replay(4));
  EXPECT_EQ(recorder.log, "begin cancel ");
}

TEST(CudaGraphs, ABackendWithoutThemAndAUserWhoWantsNoneHaveNone) {
  Recorder recorder;
  const OpTable plain, ops = recording_ops();
  EXPECT_FALSE(CudaGraphs(plain, &recorder, 8, true).enabled());
  EXPECT_FALSE(CudaGraphs(ops, &recorder, 8, false).enabled());
  EXPECT_TRUE(CudaGraphs(ops, &recorder, 8, true).enabled());
}

}  // namespace
}  // namespace nanovllm
