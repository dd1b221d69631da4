// Embedding and output head, their vocabulary split over ranks.
//
// VocabParallelEmbedding: a rank looks up the ids in its own range and gives zero rows for the others; one
// all-reduce makes the rows whole. ParallelLMHead: each rank computes its part of the logits; one gather to
// rank 0 concatenates them. Where the vocabulary does not divide, the last ranks have rows of zeros, whose logits are
// dropped. With tie_word_embeddings both use one storage.
#pragma once

#include <optional>
#include <string>

#include "layers/parameter.h"
#include "ops/embedding.h"

namespace nanovllm {

class VocabParallelEmbedding {
 public:
  static constexpr const char* kType = "VocabParallelEmbedding";

  VocabParallelEmbedding(std::string name, int64_t vocab_size, int64_t hidden_size, TensorParallel tp);

  // token_ids [num_tokens] i32 → out [num_tokens, hidden_size]
  void forward(Context& ctx, const Tensor& token_ids, const Tensor& out) const;

  const Parameter& parameter() const { return weight_; }

  template <class Visitor>
  void visit_parameters(Visitor&& visit) {
    visit(weight_);
  }

 private:
  Parameter weight_;
  int64_t first_id_;
};

class ParallelLMHead {
 public:
  static constexpr const char* kType = "ParallelLMHead";

  // Of its own: reads "<name>.weight".
  ParallelLMHead(std::string name, int64_t vocab_size, int64_t hidden_size, TensorParallel tp);
  // Tied: computes with the embedding's storage. The embedding outlives this.
  explicit ParallelLMHead(const VocabParallelEmbedding& embedding)
      : tied_(&embedding.parameter()), vocab_size_(tied_->parts()[0].rows) {}

  // hidden [num_rows, hidden_size] → [num_rows, vocab_size] f32 on rank 0, in the arena; undefined on other ranks
  Tensor forward(Context& ctx, const Tensor& hidden) const;

  const Weight& weight() const { return tied_ ? tied_->weight() : own_->weight(); }

  template <class Visitor>
  void visit_parameters(Visitor&& visit) {
    if (own_) visit(*own_);
  }

 private:
  std::optional<Parameter> own_;
  const Parameter* tied_ = nullptr;
  int64_t vocab_size_;
};

}  // namespace nanovllm
