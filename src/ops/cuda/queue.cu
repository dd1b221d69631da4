// A rank's stream: copies, marks and recorded steps (tensor/device_queue.h).
#include "ops/cuda/kernels.cuh"

namespace nanovllm::cuda {
namespace {

cudaStream_t stream_of(void* state) { return static_cast<State*>(state)->stream; }
cudaEvent_t event_of(void* mark) { return static_cast<cudaEvent_t>(mark); }

void upload(void* state, void* to, const void* from, size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_of(state)), "upload");
}

void download(void* state, void* to, const void* from, size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_of(state)), "download");
}

void* make_mark() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "mark");
  return event;
}

double seconds_between(void* earlier, void* later) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, event_of(earlier), event_of(later)), "mark");
  return double(milliseconds) * 1e-3;
}

// While one rank records, no other thread may wait for the whole device (wait_for_device).
void begin_graph(void* state) {
  static_cast<State*>(state)->recording = std::unique_lock(recording_mutex());
  const cudaError_t status = cudaStreamBeginCapture(stream_of(state), cudaStreamCaptureModeThreadLocal);
  if (status != cudaSuccess) static_cast<State*>(state)->recording = {};
  check(status, "begin_graph");
}

cudaError_t end_capture(void* state, cudaGraph_t* graph) {
  const cudaError_t status = cudaStreamEndCapture(stream_of(state), graph);
  static_cast<State*>(state)->recording = {};
  return status;
}

void* end_graph(void* state) {
  cudaGraph_t graph = nullptr;
  check(end_capture(state, &graph), "end_graph");
  cudaGraphExec_t exec = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "end_graph");
  return exec;
}

void cancel_graph(void* state) {
  cudaGraph_t graph = nullptr;
  end_capture(state, &graph);
  if (graph) cudaGraphDestroy(graph);
  cudaGetLastError();  // it would be taken for the next op's
}

void launch_graph(void* state, void* graph) {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(state)), "step");
}

}  // namespace

std::mutex& recording_mutex() {
  static std::mutex mutex;
  return mutex;
}

const DeviceQueue& queue() {
  static constexpr DeviceQueue table{
      .upload = upload,
      .download = download,
      .make_mark = make_mark,
      .set_mark = [](void* state,
                     void* mark) { check(cudaEventRecord(event_of(mark), stream_of(state)), "step"); },
      .wait_for_mark = [](void* mark) { check(cudaEventSynchronize(event_of(mark)), "step"); },
      .release_mark = [](void* mark) { cudaEventDestroy(event_of(mark)); },
      .seconds_between = seconds_between,
      .begin_graph = begin_graph,
      .end_graph = end_graph,
      .cancel_graph = cancel_graph,
      .launch_graph = launch_graph,
      .release_graph = [](void* graph) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); },
  };
  return table;
}

}  // namespace nanovllm::cuda
