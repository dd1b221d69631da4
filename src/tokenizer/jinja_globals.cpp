// The functions that every template sees.
#include <clocale>
#include <ctime>

#include "tokenizer/jinja_callable.h"
#include "tokenizer/jinja_number.h"
#include "tokenizer/jinja_operators.h"
#include "tokenizer/jinja_print.h"

namespace nanovllm::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // of Jinja's sandbox

Value raise_exception(Machine& machine, const Arguments& a) {
  const Bound bound("raise_exception()", a, {"message"}, 1);
  refuse(to_str(machine.budget, bound[0]).str());
}

// C's strftime in local time; English names whatever the locale of the program.
Value strftime_now(Machine& machine, const Arguments& a) {
  const Bound bound("strftime_now()", a, {"format"}, 1);
  const std::string format = bound.string(0) + "|";  // never empty, so that 0 means "does not fit"
  std::tm parts{};
  localtime_r(&machine.now, &parts);
  char text[1024];
  const locale_t english = newlocale(LC_ALL_MASK, "C", nullptr);
  const size_t length = strftime_l(text, sizeof text, format.c_str(), &parts, english);
  freelocale(english);
  if (length == 0)
    refuse("strftime_now() makes more than ", sizeof text - 2, " bytes: give a shorter format");
  return Value::string({std::string(text, length - 1), bound.text(0).worst_origin()});
}

Value range(Machine& machine, const Arguments& a) {
  const Bound bound("range()", a, {"start", "stop", "step"}, 1);
  const int64_t begin = bound.has(1) ? bound.integer(0, 0) : 0;
  const int64_t end = bound.has(1) ? bound.integer(1, 0) : bound.integer(0, 0);
  const int64_t step = bound.integer(2, 1);
  if (step == 0) refuse("range() with step 0");
  const Wide distance = step > 0 ? Wide(end) - begin : Wide(begin) - end;
  const Wide stride = step > 0 ? Wide(step) : -Wide(step);
  const Wide count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  if (count > kMaxRange) refuse("range() of more than ", kMaxRange, " numbers");
  machine.budget.items(size_t(count));
  std::vector<Value> values;
  for (Wide i = 0; i < count; ++i) values.push_back(Value::integer(int64_t(begin + i * step)));
  std::string text = "range(" + std::to_string(begin) + ", " + std::to_string(end);
  if (step != 1) text += ", " + std::to_string(step);
  return Value::object(std::make_shared<Iterator>(Iterator::kRange, "range",
                                                  Text(text + ")", Origin::kTemplate), std::move(values)));
}

// What dict() and namespace() take: a dict or a list of pairs, then names.
Dict make_dict(Machine& machine, std::string_view callee, const Arguments& a) {
  if (a.positional.size() > 1) refuse(callee, " takes at most 1 argument without a name");
  Dict dict;
  const auto set = [&](const Value& key, const Value& value) {
    if (!can_be_key(key)) refuse("a value of type ", type_name(key), " cannot be a key");
    machine.budget.items(2);
    if (!key.is_string()) machine.budget.step(dict.size());
    dict.set(key, value);
  };
  if (!a.positional.empty()) {
    const Value& source = a.positional[0];
    if (source.is_dict()) {
      for (const auto& [key, value] : source.as_dict().items()) set(key, value);
    } else {
      for (const Value& pair : iterate(machine.budget, source)) {
        const std::vector<Value> parts = iterate(machine.budget, pair);
        if (parts.size() != 2) refuse(callee, " of a row of ", parts.size(), " values, want pairs");
        set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : a.named)
    set(Value::string({name, Origin::kMessage}), value);  // see Dict::set
  return dict;
}

Value dict(Machine& machine, const Arguments& a) { return Value::dict(make_dict(machine, "dict()", a)); }
Value make_namespace(Machine& machine, const Arguments& a) {
  return machine.make_namespace(make_dict(machine, "namespace()", a));
}

// Gives its items in turn: next(), current, reset().
struct Cycler : Object {
  explicit Cycler(std::vector<Value> values) : items(std::move(values)) { depth = 1 + deepest(items); }
  std::string type_name() const override { return "Cycler"; }
  Value attribute(const std::string& name, const Value& self) const override {
    if (name == "current") return items[at];
    if (name != "next" && name != "reset") return Value();
    const bool next = name == "next";
    return Value::object(std::make_shared<Function>(
        name,
        [self, next](Machine&, const Arguments& a) {
          Bound("the method", a, {});
          Cycler& cycler = *self.as<Cycler>();
          const Value item = cycler.items[cycler.at];
          cycler.at = next ? (cycler.at + 1) % cycler.items.size() : 0;
          return next ? item : Value::none();
        },
        depth + 1));
  }

  std::vector<Value> items;
  size_t at = 0;
};

Value cycler(Machine&, const Arguments& a) {
  if (a.positional.empty() || !a.named.empty()) refuse("cycler() wants at least 1 item, without a name");
  return Value::object(std::make_shared<Cycler>(a.positional));
}

// A function that gives nothing when first called, then the separator.
Value joiner(Machine&, const Arguments& a) {
  const Bound bound("joiner()", a, {"sep"});
  const Value separator = bound.get(0, Value::string(", "));
  const auto used = std::make_shared<bool>(false);  // shared by the copies of this one joiner
  return Value::object(std::make_shared<Function>(
      "joiner",
      [separator, used](Machine&, const Arguments& none) {
        Bound("a joiner", none, {});
        return std::exchange(*used, true) ? separator : Value::string("");
      },
      separator.depth() + 1));
}

Value lipsum(Machine&, const Arguments&) {
  refuse("lipsum() makes random text, which a chat template cannot want");
}

struct Global {
  std::string_view name;
  Value (*function)(Machine&, const Arguments&);
};
constexpr Global kGlobals[] = {
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
    {"namespace", make_namespace},
    {"range", range},
    {"dict", dict},
    {"cycler", cycler},
    {"joiner", joiner},
    {"lipsum", lipsum},
};

}  // namespace

Value find_global(std::string_view name) {
  for (const Global& global : kGlobals)
    if (global.name == name)
      return Value::object(std::make_shared<Function>(std::string(name), global.function));
  return Value();
}

}  // namespace nanovllm::jinja
