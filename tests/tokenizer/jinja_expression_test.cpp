// Operators, literals, subscripts, undefined values and printing. What is wanted is what Python and Jinja
// print.
#include "jinja_render.h"

namespace nanovllm {
namespace {

using test::expect_refuses;
using test::expect_renders;
using test::render;

TEST(JinjaExpression, OperatorsBindAsInJinja) {
  expect_renders({
      {"{{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 7 - 2 - 1 }} {{ 2 ** 3 ** 2 }}", "7 9 4 64"},
      {"{{ -2 ** 2 }} {{ -1 | abs }} {{ +3 }} {{ 10 - -3 }}", "4 1 3 13"},
      {"{{ 'a' + 'b' ~ 1 }} {{ 2 * 3 ~ 4 }} {{ 'a' ~ none ~ true ~ 1.5 ~ [1] ~ x }}",
       "ab1 64 aNoneTrue1.5[1]"},
      {"{{ 'a' + ' b ' | trim }} {{ ('a' + ' b ') | trim }}", "ab a b"},
      {"{{ not 1 == 2 }} {{ not 'a' is string }} {{ 'a' is not string }} {{ 'a' is string ~ 'b' }}",
       "True False False Trueb"},
      {"{{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 1 < 3 > 2 != 4 }} {{ (true) != (false) }}",
       "True False True True"},
      {"{{ 1 and 2 }} {{ 0 and x.y }} {{ 0 or 'x' }} {{ 1 or x.y }} {{ '' or none }}", "2 0 x 1 None"},
      {"{{ 1 if true else 2 }} {{ 1 if false }}| {{ 1 if false else 2 if false else 3 }}", "1 | 3"},
      {"{{ 1 is eq 1 }} {{ 4 is divisibleby 2 }} {{ 2 is in [1, 2] }} {{ 3 is not even }}",
       "True True True True"},
      {"{{ {'f': 'x'}.f.upper()[0] }} {{ [1, 2].0 }} {{ {'a': 1,} }} {{ [1,] }}", "X 1 {'a': 1} [1]"},
  });
}

TEST(JinjaExpression, NumbersAreWholeOrFloatAndOfAnyLength) {
  expect_renders({
      {"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 6 / 2 }}", "3 -4 2 -2 3.5 3.0"},
      {"{{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ -0.0 }}", "3.0 -4.0 0.5 -0.5 -0.0"},
      {"{{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2.0 ** 0.5 }} {{ 0 ** 0 }} {{ (-1) ** 3 }}",
       "1024 0.5 1.4142135623730951 1 -1"},
      {"{{ true + true }} {{ 1 == 1.0 == true }} {{ 1 + 0.5 }}", "2 True 1.5"},
      {"{{ 9223372036854775807 + 1 }} {{ 10 ** 30 - 1 }} {{ -(10 ** 20) // 7 }}",
       "9223372036854775808 999999999999999999999999999999 -14285714285714285715"},
      {"{{ 10 ** 20 > 10 ** 19 }} {{ 10 ** 20 == 1e20 }} {{ -(10 ** 20) < 5 }}", "True True True"},
      {"{{ 9007199254740993 == 9007199254740992.0 }} {{ 2 ** 64 % 10 }}", "False 6"},
      {"{{ 1.0 }} {{ 1e15 }} {{ 1e16 }} {{ 1.5e22 }} {{ 0.0001 }} {{ 0.00001 }} {{ 0.1 + 0.2 }} {{ 1e308 * "
       "10 }}",
       "1.0 1000000000000000.0 1e+16 1.5e+22 0.0001 1e-05 0.30000000000000004 inf"},
      {"{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1e3 }} {{ 1_0.2_5 }}", "1000 31 5 15 1000.0 10.25"},
  });
  EXPECT_EQ(render("{{ x }} {{ x + 0 == x }} {{ x * 1.0 }}", R"({"x": 123456789012345678901234567890})"),
            "123456789012345678901234567890 True 1.2345678901234568e+29");
  const std::string digits(60, '7');
  EXPECT_EQ(
      render("{{ x }} {{ x < 1 }} {{ [1, 2, 3][x] is defined }} {{ 'abc'[:x] }}", "{\"x\": " + digits + "}"),
      digits + " False False abc");
}

TEST(JinjaExpression, TextsHavePythonsEscapes) {
  expect_renders({
      {R"({{ 'a\n\t\\\'\"b' }})", "a\n\t\\'\"b"},
      {R"({{ '\x41\u00e9\U0001F600\101\0' | length }}{{ '\x41\u00e9\U0001F600\101' }})", "5Aé😀A"},
      {R"({{ '\q\d' }})", "\\q\\d"},
      {R"({{ '\ud83d' }})", "\xEF\xBF\xBD"},
      {"{{ 'a\\\nb' }}", "ab"},
      {"{{ 'a\nb' 'c' \"d\" }}", "a\nbcd"},
  });
}

TEST(JinjaExpression, SubscriptsCountCharactersAndNeverLeaveTheRow) {
  expect_renders({
      {"{{ 'é😀z'[1] }}{{ 'abc'[-1] }}{{ 'abc'[9] }}{{ [1, 2][-3] }}|", "😀c|"},
      {"{{ 'abcdef'[1:5:2] }} {{ 'abc'[::-1] }} {{ 'é😀z'[1:] }} {{ 'abc'[5:] }}|{{ 'abc'[-2:] }}",
       "bd cba 😀z |bc"},
      {"{{ [1, 2, 3][1:] }} {{ [1, 2, 3][::-2] }} {{ [1, 2, 3][:-1] }} {{ (1, 2, 3)[:1] }}",
       "[2, 3] [3, 1] [1, 2] (1,)"},
      {"{{ [1, 2, 3][none:none:none] }} {{ [1, 2, 3][-9:9] }} {{ range(5)[1:3] }}",
       "[1, 2, 3] [1, 2, 3] [1, 2]"},
      {"{{ {'a': 1}['b'] }}{{ {1: 'x'}[1.0] }}{{ {'a': 1}[[1]] is defined }}", "xFalse"},
  });
}

TEST(JinjaExpression, AttributesComeBeforeKeysAndKeysBeforeAttributes) {
  expect_renders({
      {"{{ {'items': 5}['items'] }} {{ {'items': 5}.items is callable }} {{ {'items': {'type': "
       "1}}.items.type }}|",
       "5 True |"},
      {"{{ {'name': 5}.name }} {{ 'x'['upper']() }} {{ 'x'.content is defined }}", "5 X False"},
      {"{{ {'_x': 1}._x }} {{ 'a'.__class__ is defined }} {{ {'__class__': 1}['__class__'] }}", "1 False 1"},
      {"{{ [1].append is defined }}{{ [1].append }} {{ {}.update is defined }}", "False False"},
      {"{{ namespace(a=1).a }}{{ namespace({'a': 2}, b=3).b }} {{ namespace(a=1) }}",
       "13 <Namespace {'a': 1}>"},
  });
}

TEST(JinjaExpression, UndefinedIsNothingButNotNone) {
  expect_renders({
      {"{{ x }}{{ x ~ 'a' }}{{ x | length }}{{ x | list }}{{ not x }}", "a0[]True"},
      {"{{ x == y }} {{ x == none }} {{ x in [1] }} {{ 1 in x }} {{ x is none }}",
       "True False False False False"},
      {"{{ x is iterable }} {{ x is sequence }} {{ x is mapping }} {{ x is string }}",
       "True True False False"},
      {"{% for i in x %}a{% else %}b{% endfor %} {{ x | default('d') }} {{ none | default('d') }} {{ '' | "
       "default('d', true) }}",
       "b d None d"},
      {"{{ none.x is defined }} {{ (5).x is defined }} {{ none }}", "False False None"},
  });
  expect_refuses({
      {"{{ x.y }}", "test:1:5: 'x' is undefined"},
      {"{{ x['y'] }}", "'x' is undefined"},
      {"{{ x[1:] }}", "'x' is undefined"},
      {"{{ {}.a.b is defined }}", "a value of type dict has no attribute 'a'"},
      {"{{ none.x.y }}", "none has no attribute 'x'"},
      {"{{ [][0].role }}", "a value of type list has no such element"},
      {"{{ 'a'[3].role }}", "a value of type str has no such element"},
      {"{{ [1]['a':] }}", "the ends of a slice are not whole numbers"},
      {"{{ (5)[1:] }}", "a value of type int has no slices"},
      {"{{ x + 1 }}", "'x' is undefined"},
      {"{{ 'a' + x }}", "'x' is undefined"},
      {"{{ -x }}", "'x' is undefined"},
      {"{{ x < 1 }}", "'x' is undefined"},
      {"{{ x() }}", "'x' is undefined"},
      {"{{ x | int }}", "'x' is undefined"},
      {"{{ x | float }}", "'x' is undefined"},
      {"{{ x | attr('a') }}", "'x' is undefined"},
      {"{{ 'a'.split(x) }}", "'x' is undefined"},
      {"{{ range(x) }}", "'x' is undefined"},
      {"{{ (1 if false).x }}", "the condition is false and there is no else"},
      {"{{ ([] | first).x }}", "first of an empty row of values"},
      {"{{ ([] | last).x }}", "last of an empty row of values"},
      {"{{ ([] | max).x }}", "min or max of an empty row of values"},
      {"{% for i in [1] %}{{ loop.previtem.x }}{% endfor %}", "the first turn has no loop.previtem"},
      {"{% for i in [1] %}{{ loop.nextitem.x }}{% endfor %}", "the last turn has no loop.nextitem"},
      {"{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}", "'a' is not given"},
      {"{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "'caller' is undefined"},
      {"{{ [1].append(2) }}", "'append' would change a list"},
      {"{{ {}.pop('a') }}", "'pop' would change a dict"},
  });
}

TEST(JinjaExpression, ComparisonsFollowPython) {
  expect_renders({
      {"{{ [1, 2] == [1, 2.0] }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ [1] == (1,) }} {{ '1' == 1 }}",
       "True True False False"},
      {"{{ [1, 2] < [1, 3] }} {{ [1] < [1, 0] }} {{ 'a' < 'B' }} {{ 'é' > 'z' }}", "True True False True"},
      {"{{ 'b' in 'abc' }} {{ '' in 'abc' }} {{ 1.0 in [1] }} {{ 'a' in {'a': 0} }} {{ 3 not in (1, 2) }}",
       "True True True True True"},
      {"{{ 2 in range(3) }} {{ ('a', 1) in {'a': 1}.items() }} {{ namespace() == namespace() }}",
       "True True False"},
      {"{% set d = {1: 'a', true: 'b', 1.0: 'c'} %}{{ d }}", "{1: 'c'}"},
      {"{% set inf = 1e999 %}{{ inf - inf == inf - inf }} {{ (inf - inf) < 1 }} {{ (inf - inf) >= 1 }}",
       "False False False"},
  });
}

TEST(JinjaExpression, PrintsAsPythonDoes) {
  EXPECT_EQ(render("{{ x }}", R"({"x": ["a", 1, 1.0, true, null, {"k": "it's"}, [], {}]})"),
            R"(['a', 1, 1.0, True, None, {'k': "it's"}, [], {}])");
  EXPECT_EQ(render("{{ [x] }}",
                   R"({"x": "it's \"q\" \\ \n\t\r\u0000\u007f\u00a0\u00ad\u200b\ue000\udb40\udc01 é😀"})"),
            R"(['it\'s "q" \\ \n\t\r\x00\x7f\xa0\xad\u200b\ue000\U000e0001 é😀'])");
  expect_renders({
      {"{{ (1,) }} {{ () }} {{ (1, 2) }} {{ [x] }} {{ ['<' | safe] }}",
       "(1,) () (1, 2) [Undefined] [Markup('<')]"},
      {"{{ range(3) }} {{ range(1, 5, 2) }} {{ {'a': 1}.keys() }} {{ {'a': 1}.items() }}",
       "range(0, 3) range(1, 5, 2) dict_keys(['a']) dict_items([('a', 1)])"},
      {"{{ range }} {{ [1] | map('abs') }}", "<function range> <generator object>"},
  });
}

TEST(JinjaExpression, PlusEscapesWhatJoinsMarkup) {
  expect_renders({
      {"{{ 'f<' + ('<' | safe) }} {{ ('<' | safe) + '<' }} {{ '<' ~ ('<' | safe) }}", "f&lt;< <&lt; <<"},
      {"{{ ('<a>' | safe)[:2] + '>' }} {{ ('%s' | safe) % '<' }} {{ ('<' | safe).join(['<', '&']) }}",
       "<a&gt; &lt; &lt;<&amp;"},
      {"{{ '<\"&\\'>' | e }} {{ '<' | e | e }} {{ '<' | e | forceescape }} {{ '<' | e is escaped }}",
       "&lt;&#34;&amp;&#39;&gt; &lt; &amp;lt; True"},
  });
}

TEST(JinjaExpression, GeneratorsAreWalkedOnce) {
  expect_renders({
      {"{% set g = [1, 2] | map('string') %}{{ g | list }}{{ g | list }}", "['1', '2'][]"},
      {"{% set g = [1, 2] | map('abs') %}{{ g | first }}{{ g | list }}", "1[2]"},
      {"{% set v = {'a': 1}.items() %}{{ v | list }}{{ v | list }}{{ v | length }}", "[('a', 1)][('a', 1)]1"},
  });
}

TEST(JinjaExpression, WrongKindsAreToldByName) {
  expect_refuses(
      {
          {"{{ 'a' + 1 }}", "test:1:8: '+' between str and int is not possible"},
          {"{{ none + 'a' }}", "'+' between NoneType and str is not possible"},
          {"{{ {} + {} }}", "'+' between dict and dict"},
          {"{{ 1 < 'a' }}", "'<' between int and str"},
          {"{{ [1] < ['a'] }}", "'<' between int and str"},
          {"{{ 'a' >= none }}", "'>=' between str and NoneType"},
          {"{{ 1 in 'abc' }}", "'in' a text, want a text left of it, not int"},
          {"{{ 1 in none }}", "'in' a value of type NoneType, want a text, a list or a dict"},
          {"{{ [1] in {} }}", "a value of type list cannot be a key"},
          {"{{ {[1]: 2} }}", "a value of type list cannot be a key"},
          {"{{ {}.get([1]) }}", "a value of type list cannot be a key"},
          {"{{ dict([[[1], 2]]) }}", "a value of type list cannot be a key"},
          {"{{ -'a' }}", "a value of type str has no sign"},
          {"{{ 5() }}", "a value of type int cannot be called"},
          {"{{ f(**[1]) }}", "** of a value of type list, want a dict"},
          {"{{ f(**{1: 2}) }}", "** of a dict with a key of type int"},
          {"{% for i in 5 %}{% endfor %}", "a value of type int cannot be walked over"},
          {"{% for a, b in [[1, 2, 3]] %}{% endfor %}", "3 values to unpack, want 2"},
          {"{% set d = {} %}{% set d.a = 1 %}", "attributes can be set on a namespace only, 'd' is dict"},
          {"{{ 1 / 0 }}", "division by zero"},
          {"{{ 1 // 0 }}", "division by zero"},
          {"{{ 1 % 0 }}", "division by zero"},
          {"{{ 1 % 0.0 }}", "division by zero"},
          {"{{ 0 ** -1 }}", "zero to a negative power"},
          {"{{ 0.0 ** -1 }}", "zero to a negative power"},
          {"{{ (-8) ** 0.5 }}", "a negative number to a fractional power"},
          {"{{ 10 ** 39 }}", "the result of '**' is beyond 38 digits"},
          {"{{ 10 ** 30 * 10 ** 30 }}", "the result of '*' is beyond 38 digits"},
          {"{{ 2 ** 126 + 2 ** 126 }}", "the result of '+' is beyond 38 digits"},
          {"{{ -(2 ** 126) - (2 ** 126 + 1) }}", "the result of '-' is beyond 38 digits"},
          {"{{ x + 1 }}", "arithmetic on an integer of 45 digits, want at most 38"},
          {"{{ [1][::0] }}", "the step of a slice is 0"},
          {"{{ d[1:] }}", "a value of type dict has no slices, want a text or a list"},
          {"{{ none[1:] }}", "none has no slices"},
          {"{% if true %}{{ 1 | nosuch }}{% endif %}", "no filter is named 'nosuch'"},
          {"{% if true %}{{ 1 is nosuch }}{% endif %}", "no test is named 'nosuch'"},
          {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "macro 'm' takes 1 arguments, not 2"},
          {"{% macro m(a) %}{% endmacro %}{{ m(z=1) }}", "macro 'm' takes no argument named 'z'"},
          {"{% macro m(a) %}{% endmacro %}{{ m(1, a=1) }}", "macro 'm' gets 'a' twice"},
          {"{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}",
           "macro 'm' takes no argument named 'caller'"},
          {"{% for i in [1] %}{{ loop([]) }}{% endfor %}", "loop is called, want {% for ... recursive %}"},
          {"{% for i in [1] recursive %}{{ loop() }}{% endfor %}", "loop() takes 1 argument, not 0"},
          {"{% for i in [1] %}{{ loop.cycle() }}{% endfor %}", "loop.cycle() takes at least 1 argument"},
      },
      R"({"x": 123456789012345678901234567890123456789012345, "d": {}})");
  test::expect_misparses(
      {{"{{ 0x" + std::string(40, 'f') + " }}", "an integer of 40 digits to base 16, want at most 120 bits"},
       {"{{ " + std::string(4301, '9') + " }}", "an integer of 4301 digits, want at most 4300"}});
}

}  // namespace
}  // namespace nanovllm
