#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace nanovllm {
namespace {

double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits, std::vector<TokenId> eos_token_ids)
    : limits_(limits),
      eos_token_ids_(std::move(eos_token_ids)),
      blocks_(limits.num_blocks, limits.block_size, limits.prefix_caching) {
  ASSERT(limits.max_num_seqs >= 1 && limits.max_num_batched_tokens >= limits.max_num_seqs);
}

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  const int prompt = sequence->num_prompt_tokens;
  const int64_t cache = int64_t(limits_.num_blocks) * limits_.block_size;
  if (prompt < 1) fail(ErrorKind::kRequest, "prompt: has no tokens, want at least 1");
  if (prompt >= limits_.max_model_len)
    fail(ErrorKind::kRequest, "prompt: has ", prompt,
         " tokens, want fewer than max_model_len=", limits_.max_model_len);
  if (prompt >= cache)
    fail(ErrorKind::kRequest, "prompt: has ", prompt, " tokens, want fewer than the ", cache,
         " that the KV cache holds (", limits_.num_blocks, " blocks of ", limits_.block_size, ")");
  // A sequence that reaches the end of the context or of the cache stops there, with reason "length".
  const int64_t wanted = int64_t(prompt) + sequence->params.max_tokens;
  sequence->max_len = int(std::min({wanted, int64_t(limits_.max_model_len), cache}));
  waiting_.push_back(std::move(sequence));
}

void Scheduler::begin(Sequence& sequence) {
  sequence.token_ids.reserve(size_t(sequence.max_len));  // no step allocates
  sequence.num_cached_tokens = sequence.num_computed_tokens;
  sequence.admission_time = Clock::now();
  if (limits_.prefix_caching == PrefixCaching::kOn)
    metrics_.prefix_cache_queries += sequence.num_prompt_tokens;
  metrics_.prefix_cache_hits += sequence.num_cached_tokens;
  metrics_.request_queue_time.observe(seconds(sequence.arrival_time, sequence.admission_time));
}

void Scheduler::admit() {
  while (!waiting_.empty() && num_running() < limits_.max_num_seqs &&
         blocks_.can_allocate(*waiting_.front())) {
    Sequence& sequence = *waiting_.front();
    blocks_.allocate(sequence);
    if (sequence.num_preemptions == 0) begin(sequence);
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void Scheduler::preempt_youngest() {
  Sequence& sequence = *running_.back();
  blocks_.release(sequence);
  sequence.num_computed_tokens = 0;
  ++sequence.num_preemptions;
  ++metrics_.num_preemptions;
  waiting_.push_front(std::move(running_.back()));
  running_.pop_back();
}

bool Scheduler::make_room() {
  const size_t before = running_.size();
  for (size_t i = 0; i < running_.size(); ++i) {
    // The oldest finds room in the end: alone, it has the whole cache, which holds max_len tokens.
    while (i < running_.size() && running_[i]->num_uncomputed_tokens() == 1 && !blocks_.grow(*running_[i]))
      preempt_youngest();
  }
  return running_.size() < before;
}

const Batch& Scheduler::schedule() {
  ASSERT(scheduled_.empty());
  if (!make_room()) admit();
  int budget = limits_.max_num_batched_tokens;
  const auto take = [&](Sequence& seq) {
    seq.num_scheduled_tokens = std::min(budget, seq.num_uncomputed_tokens());
    budget -= seq.num_scheduled_tokens;
    if (seq.num_scheduled_tokens > 0) scheduled_.push_back(&seq);
  };
  for (const auto& seq : running_)
    if (seq->num_uncomputed_tokens() == 1) take(*seq);
  for (const auto& seq : running_)
    if (seq->num_uncomputed_tokens() > 1) take(*seq);
  build_batch(scheduled_, limits_.block_size, batch_);
  return batch_;
}

bool Scheduler::is_stop(const Sequence& sequence, TokenId id) const {
  const auto holds = [id](const std::vector<TokenId>& ids) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  return (!sequence.params.ignore_eos && holds(eos_token_ids_)) || holds(sequence.params.stop_token_ids);
}

void Scheduler::append_token(Sequence& sequence, TokenId id, Clock::time_point now) {
  if (id < 0) {
    sequence.finish_reason = FinishReason::kError;
    sequence.error = "the model's logits are not numbers: its weights may be damaged";
    return;
  }
  if (sequence.num_output_tokens() == 0) {
    sequence.first_token_time = now;
    metrics_.prompt_tokens += sequence.num_prompt_tokens;
    metrics_.time_to_first_token.observe(seconds(sequence.arrival_time, now));
  } else {
    metrics_.inter_token_latency.observe(seconds(sequence.last_token_time, now));
  }
  sequence.last_token_time = now;
  ++metrics_.generation_tokens;
  sequence.token_ids.push_back(id);
  if (is_stop(sequence, id))
    sequence.finish_reason = FinishReason::kStop;
  else if (sequence.num_tokens() >= sequence.max_len)
    sequence.finish_reason = FinishReason::kLength;
}

void Scheduler::update(std::span<const TokenId> sampled_ids) {
  progressed_.clear();
  const Clock::time_point now = Clock::now();
  size_t row = 0;
  for (Sequence* seq : scheduled_) {
    seq->num_computed_tokens += seq->num_scheduled_tokens;
    seq->num_scheduled_tokens = 0;
    blocks_.remember_computed(*seq);
    if (seq->num_uncomputed_tokens() > 0) continue;  // a chunk of the prompt: no logits row
    append_token(*seq, sampled_ids[row++], now);
    if (!seq->finished()) progressed_.push_back(seq);
  }
  ASSERT(row == sampled_ids.size());
  scheduled_.clear();
  remove_finished();
}

void Scheduler::fail_step(const std::string& reason) {
  progressed_.clear();
  for (Sequence* seq : scheduled_) {
    seq->num_scheduled_tokens = 0;
    seq->finish_reason = FinishReason::kError;
    seq->error = reason;
  }
  scheduled_.clear();
  remove_finished();
}

void Scheduler::remove_finished() {
  size_t kept = 0;
  for (auto& seq : running_) {
    if (seq->finished()) {
      const FinishReason reason = seq->finish_reason;
      finish(std::move(seq), reason);
    } else {
      std::swap(running_[kept++], seq);
    }
  }
  running_.resize(kept);
}

void Scheduler::finish(std::unique_ptr<Sequence> sequence, FinishReason reason) {
  blocks_.release(*sequence);
  sequence->finish_reason = reason;
  sequence->finish_time = Clock::now();
  ++metrics_.finished[size_t(reason)];
  metrics_.e2e_request_latency.observe(seconds(sequence->arrival_time, sequence->finish_time));
  finished_.push_back(std::move(sequence));
}

bool Scheduler::abort(RequestId id) {
  ASSERT(scheduled_.empty());
  const auto remove_from = [&](auto& sequences) {
    const auto it =
        std::find_if(sequences.begin(), sequences.end(), [id](const auto& s) { return s->id == id; });
    if (it == sequences.end()) return false;
    std::erase(progressed_, it->get());
    std::unique_ptr<Sequence> sequence = std::move(*it);
    sequences.erase(it);
    finish(std::move(sequence), FinishReason::kAbort);
    return true;
  };
  return remove_from(running_) || remove_from(waiting_);
}

std::vector<std::unique_ptr<Sequence>> Scheduler::take_finished() { return std::exchange(finished_, {}); }

void Scheduler::check_integrity() const {
  std::vector<const Sequence*> running;
  for (const auto& seq : running_) running.push_back(seq.get());
  for (const auto& seq : waiting_) ASSERT(seq->block_table.empty() && seq->num_computed_tokens == 0);
  blocks_.check_integrity(running);
}

}  // namespace nanovllm
