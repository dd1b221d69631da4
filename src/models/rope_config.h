// The rope fields of config.json: rope_theta and rope_scaling (transformers 4), rope_parameters (transformers 5).
#pragma once

#include "layers/rotary_embedding.h"

namespace nanovllm {

class JsonFields;

// default_theta: the family's, taken with a warning where the file has none. max_position_embeddings: YaRN's original
// context, where the file has none. throws Error(kConfig): two places disagree, a value makes no sense;
// Error(kUnsupported): a type or a field that would change the result and is not implemented
RopeConfig read_rope_config(const JsonFields& fields, double default_theta, int max_position_embeddings);

// The longest sequence: what config.json says, or what YaRN stretches it to.
int max_model_len(const RopeConfig& rope, int max_position_embeddings);

}  // namespace nanovllm
