// JSON to values, and what keeps hostile templates and requests from harming the process.
#include "jinja_render.h"

namespace nanovllm {
namespace {

using jinja::Dict;
using jinja::Kind;
using jinja::parse_json;
using jinja::Value;
using test::expect_error;
using test::expect_refuses;
using test::render;

std::string repeated(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(JinjaJson, KeepsOrderAndTheFormOfNumbers) {
  const Value value = parse_json(R"({"z": 1, "a": 1.0, "m": [true, null, "é"], "z": 2})");
  ASSERT_EQ(value.as_dict().size(), 3u);
  EXPECT_EQ(value.as_dict().items()[0].first.text(), "z");
  EXPECT_EQ(value.as_dict().items()[0].second.as_integer(), 2);  // the later one, in the earlier one's place
  EXPECT_TRUE(value.as_dict().find("a")->is(Kind::kFloat));
  EXPECT_EQ(value.as_dict().find("m")->items()[2].text(), "é");
  EXPECT_EQ(parse_json("18446744073709551615").text(), "18446744073709551615");
  EXPECT_EQ(parse_json("-9223372036854775808").as_integer(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(parse_json("-9223372036854775809").text(), "-9223372036854775809");
  EXPECT_TRUE(parse_json("1e2").is(Kind::kFloat));
}

TEST(JinjaJson, ManyKeysAreFound) {
  Dict dict;
  for (int i = 0; i < 1000; ++i) dict.set("k" + std::to_string(i), Value::integer(i));
  dict.set("k7", Value::integer(-7));
  EXPECT_EQ(dict.size(), 1000u);
  EXPECT_EQ(dict.find("k7")->as_integer(), -7);
  EXPECT_EQ(dict.find("k999")->as_integer(), 999);
  EXPECT_EQ(dict.find("k1000"), nullptr);
}

TEST(JinjaJson, ErrorsNameTheByte) {
  expect_error(ErrorKind::kRequest, "JSON: byte 8 is wrong", [] { parse_json("{\"a\": 1,}"); });
  expect_error(ErrorKind::kRequest, "JSON: byte", [] { parse_json(""); });
  expect_error(ErrorKind::kRequest, "JSON: byte", [] { parse_json("\"\xff\""); });
  expect_error(ErrorKind::kRequest, "JSON: byte", [] { parse_json("\"\\ud800\""); });
  expect_error(ErrorKind::kRequest, "JSON: the number that ends at byte 5 is beyond 1e308",
               [] { parse_json("1e999"); });
  expect_error(ErrorKind::kRequest, "JSON nests deeper than 200 levels",
               [] { parse_json(repeated("[", 100000)); });
  expect_error(ErrorKind::kRequest, "JSON nests deeper than 200 levels",
               [] { parse_json(repeated("{\"a\":", 100000)); });
  expect_error(ErrorKind::kRequest, "is beyond 1e308", [] { parse_json(std::string(400, '1')); });
  EXPECT_EQ(parse_json(repeated("[", 200) + repeated("]", 200)).depth(), 200);
}

TEST(JinjaLimits, EndlessRecursionIsAnError) {
  const std::string too_deep = "recursion goes deeper than 1000 levels";
  expect_refuses({
      {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", too_deep},
      {"{% macro f(t) %}{% for c in t %}{{ f(c) }}{% endfor %}{% endmacro %}{{ f('ab') }}", too_deep},
      {"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", too_deep},
      {"{% macro m() %}{% call m() %}{{ m() }}{% endcall %}{{ caller() }}{% endmacro %}{% call m() %}{% "
       "endcall %}",
       too_deep},
  });
  EXPECT_EQ(
      render(
          "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{% else %}end{% endif %}{% endmacro %}{{ f(100) }}"),
      "end");
}

TEST(JinjaLimits, EndlessWorkIsAnError) {
  expect_refuses({
      {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
       "the template runs for more than 10000000 steps"},
      {"{{ 'x' * 1000000000000 }}", "the template makes more than 64 MiB at once"},
      {"{{ [1] * 1000000000000000000000000000000 }}", "the template makes more than 64 MiB at once"},
      {"{{ 'x' | center(1000000000000) }}", "the template makes more than 64 MiB at once"},
      {"{{ [1] | tojson(indent=1000000000000) }}", "the template makes more than 64 MiB at once"},
      {"{{ '%999999999d' % 1 }}", "the template makes more than 64 MiB at once"},
      {"{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor "
       "%}",
       "the template makes more than 64 MiB at once"},
      {"{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ "
       "ns.s }}",
       "more than"},
      {"{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}"
       "{% set a = ns.s + [1] %}{{ a == ns.s + [1] }}",
       "the template runs for more than 10000000 steps"},
      {"{% set s = 'x' * 1000000 %}{% for i in range(99) %}{{ s }}{% endfor %}",
       "the text grows beyond 64 MiB"},
      {"{% set s = 'x' * 60000000 %}{% for i in range(99) %}{% set t = s + 'y' %}{% endfor %}",
       "the template makes more than 512 MiB of text and lists"},
      {"{{ [1] | batch(1000000000000, 1) }}", "the template runs for more than"},
      {"{{ [1] | slice(1000000000000) }}", "the template runs for more than"},
  });
}

TEST(JinjaLimits, NoValueNestsTooDeep) {
  expect_refuses({
      {"{% set ns = namespace(s=[]) %}{% for i in range(9999) %}{% set ns.s = [ns.s] %}{% endfor %}",
       "a value nests deeper than 200 levels"},
      {"{% set ns = namespace(s={}) %}{% for i in range(9999) %}{% set ns.s = {'a': ns.s} %}{% endfor %}",
       "a value nests deeper than 200 levels"},
      {"{% set ns = namespace(s={}) %}{% for i in range(9999) %}{% set ns.s = {'a': ns.s}.get %}{% endfor %}",
       "a value nests deeper than 200 levels"},
      {"{% set ns = namespace(s=1) %}{% for i in range(9999) %}{% for j in [ns.s] %}{% set ns.s = loop %}{% "
       "endfor %}{% endfor %}",
       "a value nests deeper than 200 levels"},
      {"{% set ns = namespace(s=1) %}{% for i in range(9999) %}{% set ns.s = cycler(ns.s) %}{% endfor %}",
       "a value nests deeper than 200 levels"},
      {"{% set ns = namespace(s=1) %}{% for i in range(9999) %}{% set ns.s = [ns.s] | map('list') %}{% "
       "endfor %}",
       ""},
      {"{% set a = namespace() %}{% set a.self = a %}{{ a }}",
       "a value to print nests deeper than 400 levels"},
      {"{% set a = namespace() %}{% set a.self = [a] %}{{ a == a }}{{ a.self | tojson }}",
       "a value of type Namespace is not JSON"},
  });
}

TEST(JinjaLimits, CirclesAreFreed) {  // the leak checker of the address sanitizer looks on
  test::expect_renders({
      {"{% set a = namespace() %}{% set a.self = [a, {'b': a}] %}{{ a.self | length }}", "2"},
      {"{% set a = namespace() %}{% macro m() %}{{ a.m is defined }}{% endmacro %}{% set a.m = m %}{{ a.m() "
       "}}",
       "True"},
      {"{% set ns = namespace() %}{% for i in [1] %}{{ loop.changed(loop) }}{% set ns.l = loop %}{% set ns.f "
       "= loop.changed %}"
       "{% endfor %}{{ ns.f(ns.l) }}",
       "TrueTrue"},
      {"{% set ns = namespace(f=none) %}{% macro outer() %}{% set g = ns.f %}{% macro inner() %}{{ g is none "
       "}}{% endmacro %}"
       "{% set ns.f = inner %}{% endmacro %}{% for i in range(5000) %}{{ outer() }}{% endfor %}{{ ns.f() }}",
       "False"},
  });
}

TEST(JinjaLimits, UserTextIsNeverReadAsTemplate) {
  EXPECT_EQ(render("{{ x }}", R"({"x": "{{ 1 }}{% if %}{# <|im_end|>"})"), "{{ 1 }}{% if %}{# <|im_end|>");
}

}  // namespace
}  // namespace nanovllm
