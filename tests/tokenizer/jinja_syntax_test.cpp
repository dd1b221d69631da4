// White space, tags, scopes, loops and macros. The expected texts are Jinja's rules as jinja_lexer.h and
// jinja_interpreter.h state them; the reference data of chat_template_test.cpp confirms them against Jinja
// itself.
#include "jinja_render.h"

namespace nanovllm {
namespace {

using test::expect_misparses;
using test::expect_renders;
using test::render;

TEST(JinjaSyntax, TagsTakeTheNewlineBehindAndTheBlanksBefore) {
  expect_renders({
      {"a\n  {% if true %}\nb\n  {% endif %}\nc\n", "a\nb\nc"},
      {"a  {% if true %}b{% endif %}", "a  b"},               // not at the start of the line
      {"{% if true %}  {% set x = 1 %}{% endif %}.", "  ."},  // a tag before: no start of a line either
      {"{% if true %}\n  {% set x = 1 %}{% endif %}.", "."},
      {"a\n  {{ 1 }}\n", "a\n  1"},  // never around {{ }}
      {"{% set x = 1 %} \nb", " \nb"},
      {"a\n  {# note #}\nb", "a\nb"},
      {"a\n  {%+ if true +%}\nb{% endif %}", "a\n  \nb"},
      {"x\r\ny\rz{{ 'p\r\nq' }}\n", "x\ny\nzp\nq"},
      {"end\n\n", "end\n"},
  });
}

TEST(JinjaSyntax, MinusTakesAllWhiteSpace) {
  expect_renders({
      {"a \n {%- if true -%} \n b \n {%- endif %} c", "ab c"},
      {"a \n {{- 1 -}} \n b", "a1b"},
      {"a \n {#- note -#} \n b", "ab"},
      {"a\u3000\u00a0{{- 1 }}", "a1"},
      {"{{-1}}{{ -1 }}", "1-1"},
      {"{#-#}x{# - #}y{#--#}z", "xyz"},
  });
}

TEST(JinjaSyntax, TextThatIsNoTagStays) {
  expect_renders({
      {"a }} b %} c #} { % { {", "a }} b %} c #} { % { {"},
      {"{{ '}}' }}{{ \"%}\" }}{{ {'a': {'b': 1}} }}", "}}%}{'a': {'b': 1}}"},
      {"{% raw %}{{ x }}{% if %}{% endraw %}", "{{ x }}{% if %}"},
      {"{%- raw -%} \n {% endrow %} {%- endraw -%} \n z", "{% endrow %}z"},
      {"{% raw %}\n  a\n  {% endraw %}\nb", "\n  a\nb"},
  });
}

TEST(JinjaSyntax, IfChoosesTheFirstThatHolds) {
  const std::string_view source =
      "{% if x == 1 %}one{% elif x == 2 %}two{% elif x == 3 %}three{% else %}many{% endif %}";
  EXPECT_EQ(render(source, R"({"x": 1})"), "one");
  EXPECT_EQ(render(source, R"({"x": 3})"), "three");
  EXPECT_EQ(render(source, R"({"x": 9})"), "many");
  EXPECT_EQ(render("{% if x %}a{% endif %}"), "");
}

TEST(JinjaSyntax, ScopesEndWithTheirBlock) {
  expect_renders({
      {"{% if true %}{% set a = 1 %}{% endif %}{{ a }}", "1"},
      {"{% for i in [1, 2] %}{% set a = i %}{% endfor %}{{ a is defined }}{{ i is defined }}{{ loop is "
       "defined }}",
       "FalseFalseFalse"},
      {"{% for i in [1, 2] %}{{ a is defined }}{% set a = i %}{% endfor %}",
       "FalseFalse"},  // each turn afresh
      {"{% set a = 0 %}{% for i in [1, 2] %}{% set a = a + i %}{{ a }}{% endfor %}{{ a }}", "120"},
      {"{% set ns = namespace(a=0) %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}",
       "3"},
      {"{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "3False"},
      {"{% set a %}x{{ 1 }}{% set b = 1 %}{% endset %}{{ a }}{{ b is defined }}", "x1False"},
      {"{% set a | upper | trim %} x {% endset %}[{{ a }}]", "[X]"},
      {"{% filter upper | replace('A', 'b') %}a{% set c = 1 %}{% endfilter %}{{ c is defined }}", "bFalse"},
      {"{% for i in [7] %}{% generation %}{{ loop.index }}{{ i }}{% set c = 1 %}{% endgeneration %}{{ c is "
       "defined }}"
       "{% endfor %}",
       "17False"},
      {"{% set a, b = [1, 2] %}{{ b }}{{ a }}{% set (a, b) = b, a %}{{ b }}{{ a }}", "2112"},
      {"{% set a = 1 %}{% block body %}{{ a }}{% set a = 2 %}{% endblock body %}{{ a }}", "11"},
      {"{% for i in [1] %}{% block one %}{{ i is defined }}{% endblock %}{% endfor %}", "False"},
      {"{% print 1, 2 %}", "(1, 2)"},
  });
  EXPECT_EQ(render("{% if false %}{% set t = 1 %}{% endif %}{{ t }}", R"({"t": 7})"), "7");
  EXPECT_EQ(render("{% set t = t[1:] %}{{ t }}", R"({"t": [1, 2]})"), "[2]");
}

TEST(JinjaSyntax, LoopsKnowWhereTheyAre) {
  expect_renders({
      {"{% for c in 'xyz' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ "
       "loop.first }}"
       "{{ loop.last }}{{ loop.length }} {% endfor %}",
       "1032TrueFalse3 2121FalseFalse3 3210FalseTrue3 "},
      {"{% for c in 'xyz' %}{{ loop.previtem }}<{{ loop.nextitem }} {% endfor %}", "<y x<z y< "},
      {"{% for i in range(9) if i % 3 == 0 %}{{ loop.index }}/{{ loop.length }}:{{ i }} {% endfor %}",
       "1/3:0 2/3:3 3/3:6 "},
      {"{% for i in [1, 2, 3] %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i // 2) }} {% endfor %}",
       "aTrue bTrue aFalse "},
      {"{% for i in [] %}x{% else %}none{% endfor %}", "none"},
      {"{% for i in [1] %}{% break %}{% else %}none{% endfor %}", "none"},  // no turn reached its end
      {"{% for i in [1, 2] %}{% continue %}{% else %}none{% endfor %}", "none"},
      {"{% for i in [1, 2] %}{% if i == 2 %}{% break %}{% endif %}{% else %}none{% endfor %}", ""},
      {"{% for i in range(6) %}{% if i == 1 %}{% continue %}{% elif i == 4 %}{% break %}{% endif %}{{ i }}{% "
       "endfor %}",
       "023"},
      {"{% for i in [1, 2] %}{% filter upper %}a{% if i == 1 %}{% continue %}{% endif %}{% endfilter %}{{ i "
       "}}{% endfor %}",
       "A2"},
      {"{% for k, (a, b) in {'x': [1, 2]}.items() %}{{ k }}{{ b }}{{ a }}{% endfor %}", "x21"},
      {"{% for i in [1, 2] %}{% for j in 'ab' %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}",
       "121 122 "},
      {"{% for i in 1, 2 %}{{ i }}{% endfor %}", "12"},
      {"{% for x in [1, [2, [3]]] recursive %}{{ loop(x) if x is iterable else x }}:{{ loop.depth }} {% "
       "endfor %}",
       "1:1 2:2 3:3 :2 :1 "},
      {"{% for i in [1] %}{{ loop }}{% endfor %}", "<LoopContext 1/1>"},
      {"{% for i in [1, 2] %}{% set outer = loop %}{% for j in [1] %}{{ outer.index }}{{ outer.depth0 }}{% "
       "endfor %}"
       "{% endfor %}",
       "1020"},
  });
}

TEST(JinjaSyntax, MacrosSeeWhereTheyWereDefined) {
  expect_renders({
      {"{% macro m(a, b='x', c=b) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 2) }} {{ m(b=3, "
       "a=4) }}",
       "1xx 122 433"},
      {"{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}", "False"},
      {"{% macro m() %}{{ x }}{% endmacro %}{% set x = 3 %}{{ m() }}", "3"},
      {"{% macro m() %}{{ x is defined }}{{ loop is defined }}{% endmacro %}{% for x in [1] %}{{ m() }}{% "
       "endfor %}",
       "FalseFalse"},
      {"{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}",
       "12False"},
      {"{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "3210"},
      {"{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() + '!' }}", "B!"},
      {"{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, z=2) }}", "(1,){'z': 2}"},
      {"{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}in{% endcall %}", "<in>"},
      {"{% macro m(n) %}{% for i in range(n) %}{{ caller(i) }}{% endfor %}{% endmacro %}"
       "{% call(i) m(3) %}{{ i }},{% endcall %}",
       "0,1,2,"},
      {"{% macro m() %}{% endmacro %}{{ m }}{{ m.name }}{% if m() %}T{% else %}F{% endif %}",
       "<Macro 'm'>mF"},
      {"{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'b': 3, 'a': 4}) }}", "1243"},
      {"{% set ns = namespace() %}{% for i in [5] %}{% macro m() %}{{ i }}{% endmacro %}{% set ns.m = m %}{% "
       "endfor %}"
       "{% for i in [6] %}{{ ns.m() }}{% endfor %}",
       "5"},
  });
}

TEST(JinjaSyntax, AutoescapeEscapesWhatIsNotMarkup) {
  expect_renders({
      {"{% autoescape true %}{{ '<' }}{{ '<' | safe }}{{ '<' ~ 1 }}{% endautoescape %}{{ '<' }}",
       "&lt;<&lt;1<"},
      {"{% autoescape true %}{% set x %}<{{ '>' }}{% endset %}{{ x }}{% endautoescape %}", "<&gt;"},
  });
}

TEST(JinjaSyntax, AnUnknownFilterUnderAConditionFailsOnlyWhenReached) {
  expect_renders({{"{% if false %}{{ 1 | nosuch }}{{ 1 is nosuch }}{% endif %}ok", "ok"},
                  {"{{ (1 | nosuch) if false else 'ok' }}", "ok"}});
  expect_misparses({{"{{ 1 | nosuch }}", "test:1:8: no filter is named 'nosuch'"},
                    {"\n {{ 1 is nosuch }}", "test:2:10: no test is named 'nosuch'"}});
}

TEST(JinjaSyntax, WhatCannotBeParsedIsToldWithItsPlace) {
  expect_misparses({
      {"é{{ x", "test:1:2: a tag has no end, want }}"},
      {"a\n{% if x", "test:2:1: a tag has no end, want %}"},
      {"{# x", "test:1:1: a comment has no end, want #}"},
      {"{% raw %}x{% endrow %}", "raw has no end, want {% endraw %}"},
      {"{{ 'x }}", "a string has no end, want '"},
      {"{{ ) }}", "test:1:4: unexpected ')'"},
      {"{{ [1) }}", "unexpected ')', want ']'"},
      {"{{ a & b }}", "unexpected character '&'"},
      {"{{ é ¿ }}", "unexpected character '¿'"},
      {"{{ '\\xg' }}", "\\x in a string, want 2 hex digits after it"},
      {"{{ '\\U00110000' }}", "\\U in a string is beyond Unicode"},
      {"{% if x %}", "the template ends inside a block, want {% endif %}"},
      {"{% for x in y %}{% else %}", "want {% endfor %}"},
      {"{% endif %}", "test:1:4: no tag is named 'endif'"},
      {"{% do x %}", "no tag is named 'do'"},
      {"{%- -%}", "unexpected '%}', want the name of a tag"},
      {"{% include 'x' %}", "{% include %} reads other files"},
      {"{{ }}", "unexpected '}}', want an expression"},
      {"{{ 1 2 }}", "unexpected '2', want '}}'"},
      {"{% if a = 1 %}{% endif %}", "unexpected '=', want '%}' of if"},
      {"{% set x = 1 2 %}", "unexpected '2', want '%}'"},
      {"{{ a | }}", "want a filter"},
      {"{{ a is }}", "want a test"},
      {"{{ a. }}", "want a name or a number"},
      {"{{ [1 2] }}", "unexpected '2', want ','"},
      {"{% for x %}{% endfor %}", "unexpected '%}', want 'in'"},
      {"{{ a is b is c }}", "a test follows a test"},
      {"{{ f(a=1, 2) }}", "an argument without a name"},
      {"{{ f(*a, *b) }}", "* among the arguments"},
      {"{% set true = 1 %}", "'true' is a constant"},
      {"{% set 1 = 2 %}", "unexpected '1', want a variable to assign to"},
      {"{% macro m(a=1, b) %}{% endmacro %}", "a parameter without a default"},
      {"{% call x %}{% endcall %}", "{% call %} without a call"},
      {"{{ a[1:, 2] }}", "test:1:6: a slice beside other indices"},
      {"{% break %}", "{% break %} stands outside a loop"},
      {"{% for i in x %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}",
       "{% continue %} stands outside a loop"},
      {"\xff", "test: byte 0 is not UTF-8"},
  });
}

TEST(JinjaSyntax, DeepNestingIsAnError) {
  const auto repeated = [](std::string_view text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += text;
    return out;
  };
  const int n = 100000;
  for (const std::string& source :
       {"{{ " + repeated("(", n) + "1" + repeated(")", n) + " }}",
        "{{ " + repeated("[", n) + repeated("]", n) + " }}",
        "{{ " + repeated("{1:", n) + "1" + repeated("}", n) + " }}", "{{ " + repeated("not ", n) + "1 }}",
        "{{ " + repeated("-", n) + "1 }}", "{{ 1" + repeated(" if 1 else 1", n) + " }}",
        repeated("{% if 1 %}", n), "{% set " + repeated("(", n) + "a" + repeated(")", n) + " = 1 %}",
        "{{ " + repeated("f(", n) + repeated(")", n) + " }}"})
    test::expect_error(ErrorKind::kConfig, "nested more than 200 levels deep",
                       [&] { ChatTemplate(source, "test"); });
  for (const std::string& source :
       {"{{ 1" + repeated(" + 1", n) + " }}", "{{ x" + repeated(".x", n) + " }}",
        "{{ x" + repeated("|abs", n) + " }}", "{{ 1" + repeated(" or 1", n) + " }}",
        "{{ f" + repeated("()", n) + " }}"})
    test::expect_error(ErrorKind::kConfig, "nests more than 200 levels deep",
                       [&] { ChatTemplate(source, "test"); });
  EXPECT_EQ(render("{{ 1" + repeated(" + 1", 150) + " }}"), "151");
  EXPECT_EQ(render("{{ " + repeated("(", 60) + "1" + repeated(")", 60) + " }}"), "1");
}

}  // namespace
}  // namespace nanovllm
