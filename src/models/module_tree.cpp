#include "models/module_tree.h"

namespace nanovllm {
namespace {

// "Qwen3" of "Qwen3ForCausalLM"
std::string family_prefix(const std::string& architecture) {
  return architecture.substr(0, architecture.find("ForCausalLM"));
}

// Visits the modules of another one and makes a tree of them.
class TreeBuilder {
 public:
  TreeBuilder(Module& parent, const std::string& prefix) : parent_(parent), prefix_(prefix) {}

  template <class T>
  void operator()(const std::string& name, T& module) {
    Module node{.name = name, .type = type_of(module)};
    if constexpr (requires { module.visit_modules(*this); }) {
      module.visit_modules(TreeBuilder(node, prefix_));
    } else {
      module.visit_parameters([&](const Parameter& parameter) { node.parameters.push_back(&parameter); });
    }
    parent_.children.push_back(std::move(node));
  }

 private:
  template <class T>
  std::string type_of(const T&) const {
    if constexpr (std::is_same_v<T, Attention>)
      return prefix_ + "Attention";
    else if constexpr (std::is_same_v<T, Mlp>)
      return prefix_ + "MLP";
    else if constexpr (std::is_same_v<T, DecoderLayer>)
      return prefix_ + "DecoderLayer";
    else
      return T::kType;
  }

  Module& parent_;
  const std::string& prefix_;
};

}  // namespace

Module module_tree(const Decoder& model) {
  const std::string prefix = family_prefix(model.config().architecture);
  Module root{.name = "", .type = model.config().architecture};
  Module inner{.name = "model", .type = prefix + "Model"};
  Module all;
  const_cast<Decoder&>(model).visit_modules(TreeBuilder(all, prefix));  // which only looks
  for (Module& module : all.children)
    (module.name == "lm_head" ? root : inner).children.push_back(std::move(module));
  root.children.insert(root.children.begin(), std::move(inner));
  return root;
}

}  // namespace nanovllm
