// Any bytes as a safetensors file and as an index of shards: only Error may come out, and what is accepted is
// sound.
// Seeds: tests/golden
#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "base/error.h"
#include "checkpoint/safetensors.h"

namespace nanovllm {
namespace {

// The tensors fill the end of the file one after the other, and each is as large as its shape says.
void check_accepted(const std::vector<SafetensorsTensor>& tensors, std::span<const std::byte> file) {
  const std::byte* end = file.data() + file.size();
  for (size_t i = tensors.size(); i-- > 0;) {
    const SafetensorsTensor& tensor = tensors[i];
    ASSERT(tensor.data.data() + tensor.data.size() == end);
    ASSERT(tensor.data.data() >= file.data() + 8);
    end = tensor.data.data();
    uint64_t num_elements = 1;
    for (const int64_t dim : tensor.shape) {
      ASSERT(dim >= 0);
      num_elements *= uint64_t(dim);
    }
    ASSERT(!tensor.dtype || tensor.data.size() == num_elements * dtype_bytes(*tensor.dtype));
  }
}

template <class Body>
void expect_only_error(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    ASSERT(error.kind() == ErrorKind::kCheckpoint);
  }
}

}  // namespace
}  // namespace nanovllm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nanovllm;
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  expect_only_error([&] { check_accepted(parse_safetensors(file, "fuzz"), file); });
  expect_only_error([&] { parse_safetensors_index({reinterpret_cast<const char*>(data), size}, "fuzz"); });
  return 0;
}
