#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/error.h"

namespace nanovllm {
namespace {

bool goes_before(const std::unique_ptr<Sequence>& a, const std::unique_ptr<Sequence>& b) {
  return a->priority != b->priority ? a->priority < b->priority : a->arrival < b->arrival;
}

// All its tokens but the last are computed, and that was sampled.
bool is_decoding(const Sequence& sequence) {
  return sequence.num_output_tokens() > 0 && sequence.num_uncomputed_tokens() == 1;
}

double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

void end_with_error(Sequence& sequence, const std::string& reason) {
  sequence.num_scheduled_tokens = 0;
  sequence.finish_reason = FinishReason::kError;
  sequence.error = reason;
}

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits, std::vector<TokenId> eos_token_ids)
    : limits_(limits),
      eos_token_ids_(std::move(eos_token_ids)),
      blocks_(limits.num_blocks, limits.block_size, limits.prefix_caching) {
  running_.reserve(size_t(std::max(0, limits.max_num_seqs)));
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
  std::vector<std::unique_ptr<Sequence>> completions;
  for (int i = 1; i < sequence->params.n; ++i) completions.push_back(std::make_unique<Sequence>(*sequence));
  completions.insert(completions.begin(), std::move(sequence));
  for (size_t i = 0; i < completions.size(); ++i) {
    completions[i]->sample_index = int(i);
    completions[i]->arrival = next_arrival_++;
    wait(std::move(completions[i]));
  }
}

void Scheduler::wait(std::unique_ptr<Sequence> sequence) {
  waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), sequence, goes_before),
                  std::move(sequence));
}

void Scheduler::begin(Sequence& sequence) {
  sequence.admission_time = Clock::now();
  if (sequence.sample_index > 0) return;  // what follows counts requests
  if (limits_.prefix_caching == PrefixCaching::kOn)
    metrics_.prefix_cache_queries += sequence.num_prompt_tokens;
  metrics_.prefix_cache_hits += sequence.num_cached_tokens;
  metrics_.request_queue_time.observe(seconds(sequence.arrival_time, sequence.admission_time));
}

void Scheduler::admit() {
  while (!waiting_.empty() && num_running() < limits_.max_num_seqs) {
    Sequence& sequence = *waiting_.front();
    if (sequence.ended_before_preemption == num_ended_) return;
    sequence.token_ids.reserve(size_t(sequence.max_len));  // no step allocates
    const auto place = std::upper_bound(running_.begin(), running_.end(), waiting_.front(), goes_before);
    const Sequence* before = place == running_.begin() ? nullptr : place[-1].get();
    const bool first_admission = sequence.admission_time == Clock::time_point{};
    if (before && before->id == sequence.id && before->num_output_tokens() == 0) {
      sequence.shares_prompt = true;
      if (first_admission) sequence.num_cached_tokens = before->num_cached_tokens;
    } else if (blocks_.can_allocate(sequence)) {
      blocks_.allocate(sequence);
      if (first_admission) sequence.num_cached_tokens = sequence.num_computed_tokens;
    } else {
      return;
    }
    if (first_admission) begin(sequence);
    running_.insert(place, std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void Scheduler::preempt_last() {
  Sequence& sequence = *running_.back();
  blocks_.release(sequence);
  sequence.num_computed_tokens = 0;
  sequence.shares_prompt = false;
  ++sequence.num_preemptions;
  sequence.ended_before_preemption = num_ended_;
  ++metrics_.num_preemptions;
  wait(std::move(running_.back()));
  running_.pop_back();
}

bool Scheduler::make_room() {
  const size_t before = running_.size();
  for (size_t i = 0; i < running_.size(); ++i) {
    // Blocks for a prompt were given at admission. The first one finds room in the end: alone, it has the whole cache,
    // which holds max_len tokens.
    while (i < running_.size() && is_decoding(*running_[i]) && !blocks_.grow(*running_[i])) preempt_last();
  }
  return running_.size() < before;
}

void Scheduler::take(size_t index, int& budget) {
  Sequence& sequence = *running_[index];
  if (sequence.shares_prompt) return;  // taken with the one that computes
  sequence.num_scheduled_tokens = std::min(budget, sequence.num_uncomputed_tokens());
  if (sequence.num_scheduled_tokens == 0) return;
  budget -= sequence.num_scheduled_tokens;
  scheduled_.push_back(&sequence);
  if (sequence.num_scheduled_tokens < sequence.num_uncomputed_tokens()) return;
  while (++index < running_.size() && running_[index]->shares_prompt)
    scheduled_.push_back(running_[index].get());
}

const Batch& Scheduler::schedule() {
  ASSERT(scheduled_.empty());
  if (!make_room()) admit();
  int budget = limits_.max_num_batched_tokens;
  for (size_t i = 0; i < running_.size(); ++i)
    if (running_[i]->num_uncomputed_tokens() == 1) take(i, budget);
  for (size_t i = 0; i < running_.size(); ++i)
    if (running_[i]->num_uncomputed_tokens() > 1) take(i, budget);
  batch_ = 1 - batch_;
  build_batch(scheduled_, limits_.block_size, batches_[batch_]);
  return batches_[batch_];
}

const Batch* Scheduler::schedule_ahead() {
  ASSERT(ahead_.empty());
  const bool nobody_waits = waiting_.empty() || num_running() == limits_.max_num_seqs;
  const auto num_alive = scheduled_.size() - size_t(std::ranges::count(scheduled_, nullptr));
  if (!nobody_waits || num_alive != running_.size()) return nullptr;
  for (const Sequence* seq : scheduled_)
    if (seq && (seq->shares_prompt || seq->num_scheduled_tokens < seq->num_uncomputed_tokens() ||
                seq->logits_edits ||          // which may depend on the token that is being sampled
                seq->params.logprobs == -1))  // whose logits are read before the next step's
      return nullptr;
  ahead_rows_.clear();
  for (size_t row = 0; row < scheduled_.size(); ++row) {
    Sequence* seq = scheduled_[row];
    if (!seq || seq->num_tokens() + 1 >= seq->max_len) continue;  // it has ended, or ends with this token
    if (!blocks_.grow_ahead(*seq)) {
      ahead_.clear();
      return nullptr;
    }
    ahead_.push_back(seq);
    ahead_rows_.push_back(int32_t(row));
  }
  if (ahead_.empty()) return nullptr;
  batch_ = 1 - batch_;
  build_batch_ahead(ahead_, ahead_rows_, limits_.block_size, batches_[batch_]);
  ++num_steps_ahead_;
  return &batches_[batch_];
}

bool Scheduler::is_eos(const Sequence& sequence, TokenId id) const {
  return !sequence.params.ignore_eos && std::ranges::find(eos_token_ids_, id) != eos_token_ids_.end();
}

void Scheduler::append_token(Sequence& sequence, TokenId id, Clock::time_point now) {
  if (id < 0) {
    sequence.finish_reason = FinishReason::kError;
    sequence.error = id == kNoTokenLeft && sequence.logits_edits
                         ? "no token is left to take: allowed_token_ids, bad_words and min_tokens exclude all"
                         : "the model's logits are not numbers: its weights may be damaged";
    return;
  }
  if (sequence.num_output_tokens() == 0) {
    sequence.first_token_time = now;
    if (sequence.sample_index == 0) metrics_.prompt_tokens += sequence.num_prompt_tokens;
    metrics_.time_to_first_token.observe(seconds(sequence.arrival_time, now));
  } else {
    metrics_.inter_token_latency.observe(seconds(sequence.last_token_time, now));
  }
  sequence.last_token_time = now;
  ++metrics_.generation_tokens;
  sequence.token_ids.push_back(id);
  if (sequence.logits_edits) {
    sequence.logits_edits->add_output(id);
    if (sequence.logits_edits->are_over(sequence.num_output_tokens())) sequence.logits_edits.reset();
  }
  const bool eos = is_eos(sequence, id);
  sequence.stopped_by_id =
      !eos && std::ranges::find(sequence.params.stop_token_ids, id) != sequence.params.stop_token_ids.end();
  if (eos || sequence.stopped_by_id)
    sequence.finish_reason = FinishReason::kStop;
  else if (sequence.num_tokens() >= sequence.max_len)
    sequence.finish_reason = FinishReason::kLength;
}

void Scheduler::update(std::span<const TokenId> sampled_ids, const StepLogprobs& logprobs) {
  progressed_.clear();
  size_t next_logprobs = 0;  // rows rise
  const auto take_logprobs = [&](Sequence& seq, size_t row) {
    const auto& rows = logprobs.rows;
    while (next_logprobs < rows.size() && rows[next_logprobs] < int32_t(row)) ++next_logprobs;  // ended
    ASSERT(next_logprobs < rows.size() && rows[next_logprobs] == int32_t(row));
    seq.logprobs.push_back(logprobs.at(next_logprobs, *seq.params.logprobs));
  };
  const Clock::time_point now = Clock::now();
  size_t row = 0;
  const Sequence* computing = nullptr;  // the last one that computed
  for (Sequence* seq : scheduled_) {
    if (!seq) {
      ++row;
    } else if (seq->shares_prompt) {
      blocks_.share(*computing, *seq);
      seq->shares_prompt = false;
    } else {
      seq->num_computed_tokens += seq->num_scheduled_tokens;
      seq->num_scheduled_tokens = 0;
      seq->copied_block = -1;
      blocks_.remember_computed(*seq);
      computing = seq;
    }
    if (!seq || seq->num_uncomputed_tokens() > 0) continue;  // a chunk of the prompt: no logits row
    if (seq->params.logprobs && sampled_ids[row] >= 0) take_logprobs(*seq, row);
    append_token(*seq, sampled_ids[row++], now);
    if (!seq->finished()) progressed_.push_back(seq);
  }
  ASSERT(row == sampled_ids.size());
  scheduled_.clear();
  remove_finished();
  scheduled_.swap(ahead_);
  for (Sequence* seq : scheduled_)
    if (seq) seq->num_scheduled_tokens = 1;
}

void Scheduler::fail_step(const std::string& reason) {
  progressed_.clear();
  bool before_failed = false;
  for (const auto& seq : running_) {
    before_failed = seq->num_scheduled_tokens > 0 || (seq->shares_prompt && before_failed);
    if (before_failed) end_with_error(*seq, reason);
  }
  scheduled_.clear();
  ahead_.clear();
  remove_finished();
}

void Scheduler::fail_all(const std::string& reason) {
  progressed_.clear();
  for (const auto& seq : running_) end_with_error(*seq, reason);
  scheduled_.clear();
  ahead_.clear();
  remove_finished();
  for (auto& seq : waiting_) {
    end_with_error(*seq, reason);
    finish(std::move(seq), FinishReason::kError);
  }
  waiting_.clear();
}

void Scheduler::remove_finished() {
  size_t kept = 0;
  for (auto& seq : running_) {
    if (seq->finished()) {
      const FinishReason reason = seq->finish_reason;
      finish(std::move(seq), reason);
      ++num_ended_;
    } else {
      std::swap(running_[kept++], seq);
    }
  }
  running_.resize(kept);
}

void Scheduler::finish(std::unique_ptr<Sequence> sequence, FinishReason reason) {
  blocks_.release(*sequence);
  std::replace(scheduled_.begin(), scheduled_.end(), sequence.get(), static_cast<Sequence*>(nullptr));
  std::replace(ahead_.begin(), ahead_.end(), sequence.get(), static_cast<Sequence*>(nullptr));
  sequence->finish_reason = reason;
  sequence->finish_time = Clock::now();
  ++metrics_.finished[size_t(reason)];
  metrics_.e2e_request_latency.observe(seconds(sequence->arrival_time, sequence->finish_time));
  finished_.push_back(std::move(sequence));
}

// But for a step of schedule_ahead().
void Scheduler::check_between_steps() const {
  for (const Sequence* seq : scheduled_) ASSERT(!seq || (seq->num_scheduled_tokens == 1 && ahead_.empty()));
}

void Scheduler::stop(const Sequence& sequence) {
  check_between_steps();
  const auto it = std::ranges::find(running_, &sequence, &std::unique_ptr<Sequence>::get);
  ASSERT(it != running_.end());
  std::erase(progressed_, it->get());
  finish(std::move(*it), FinishReason::kStop);
  running_.erase(it);
  ++num_ended_;
}

void Scheduler::stop_finished(Sequence& sequence) {
  --metrics_.finished[size_t(sequence.finish_reason)];
  sequence.finish_reason = FinishReason::kStop;
  sequence.error.clear();
  ++metrics_.finished[size_t(FinishReason::kStop)];
}

bool Scheduler::abort(RequestId id) {
  check_between_steps();
  const auto is_of_request = [id](const auto& sequence) { return sequence->id == id; };
  bool found = false;
  const auto remove_from = [&](auto& sequences) {  // they are neighbours
    const auto first = std::find_if(sequences.begin(), sequences.end(), is_of_request);
    const auto last = std::find_if_not(first, sequences.end(), is_of_request);
    for (auto it = first; it != last; ++it) {
      std::erase(progressed_, it->get());
      finish(std::move(*it), FinishReason::kAbort);
      found = true;
    }
    sequences.erase(first, last);
  };
  const size_t num_running = running_.size();
  remove_from(running_);
  num_ended_ += int64_t(num_running - running_.size());
  remove_from(waiting_);
  return found;
}

std::vector<std::unique_ptr<Sequence>> Scheduler::take_finished() { return std::exchange(finished_, {}); }

void Scheduler::check_integrity() const {
  std::vector<const Sequence*> running;
  for (const auto& seq : running_) running.push_back(seq.get());
  for (const auto& seq : waiting_) ASSERT(seq->block_table.empty() && seq->num_computed_tokens == 0);
  blocks_.check_integrity(running);
}

}  // namespace nanovllm
