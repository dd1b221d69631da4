// Filters, tests, methods and functions.
#include "jinja_render.h"

namespace nanovllm {
namespace {

using test::expect_refuses;
using test::expect_renders;
using test::render;

TEST(JinjaFilter, TojsonWritesAsPythonsJsonDumps) {
  const auto json = [](std::string_view arguments, std::string_view x) {
    return render("{{ x | tojson" + std::string(arguments) + " }}", "{\"x\": " + std::string(x) + "}");
  };
  EXPECT_EQ(json("", R"({"b": 1, "a": [1.0, true, null, "<é😀'>", 1e-7, 123456789012345678901234567890]})"),
            R"({"b": 1, "a": [1.0, true, null, "<é😀'>", 1e-07, 123456789012345678901234567890]})");
  EXPECT_EQ(json("", R"("\"\\/\n\r\t\b\f\u0000\u001f\u007f\u2028")"),
            "\"\\\"\\\\/\\n\\r\\t\\b\\f\\u0000\\u001f\x7f\u2028\"");
  EXPECT_EQ(json("(indent=2)", R"({"a": [1, {"b": 2}], "c": {}, "d": []})"),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": 2\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}");
  EXPECT_EQ(json("(indent=0)", "[1, 2]"), "[\n1,\n2\n]");
  EXPECT_EQ(json("(indent='--')", "[1]"), "[\n--1\n]");
  EXPECT_EQ(json("(indent=none)", "[1, 2]"), "[1, 2]");
  EXPECT_EQ(json("(separators=(',', ':'))", R"({"a": [1, 2]})"), R"({"a":[1,2]})");
  EXPECT_EQ(json("(separators=[', ', ':'], indent=1)", "[1, 2]"), "[\n 1, \n 2\n]");
  EXPECT_EQ(json("(sort_keys=true)", R"({"b": 1, "a": {"d": 1, "c": 2}})"),
            R"({"a": {"c": 2, "d": 1}, "b": 1})");
  EXPECT_EQ(json("(true)", R"("é😀\u007f")"), "\"\\u00e9\\ud83d\\ude00\x7f\"");
  expect_renders({{"{{ {1: 2, 1.5: 3, none: 4} | tojson }} {{ (1, 2) | tojson }} {{ {2: 1, 1: 0} | "
                   "tojson(sort_keys=true) }}",
                   R"({"1": 2, "1.5": 3, "null": 4} [1, 2] {"1": 0, "2": 1})"},
                  {"{{ [1e999, -1e999, 1e999 - 1e999] | tojson }}", "[Infinity, -Infinity, NaN]"},
                  {"{{ {true: 1} | tojson }} {{ 'a' | safe | tojson }}", R"({"true": 1} "a")"}});
  expect_refuses({
      {"{{ x | tojson }}", "a value of type Undefined is not JSON"},
      {"{{ [1] | map('abs') | tojson }}", "a value of type generator is not JSON, want data"},
      {"{{ {}.items() | tojson }}", "a value of type dict_items is not JSON"},
      {"{{ namespace() | tojson }}", "a value of type Namespace is not JSON"},
      {"{{ {(1, 2): 3} | tojson }}", "a key of type tuple is not JSON"},
      {"{{ {1: 2, 'a': 3} | tojson(sort_keys=true) }}", "tojson cannot sort keys of different types"},
      {"{{ 1 | tojson(separators=',') }}", "the separators of tojson, want a pair of texts"},
      {"{{ 1 | tojson(indent=[]) }}", "argument 2 of tojson is list, want an integer"},
  });
}

TEST(JinjaFilter, TextFiltersWorkOnTheTextOfAnything) {
  expect_renders({
      {"{{ 'aßé' | upper }} {{ 'ÀΑΣ İ' | lower }} {{ none | upper }} {{ 5 | lower }} {{ x | trim }}|",
       "ASSÉ àας i̇ NONE 5 |"},
      {"{{ 'hello wORLD' | capitalize }} {{ \"they're x-y (z\" | title }} {{ 'ǆ' | capitalize }}",
       "Hello world They're X-Y (Z ǅ"},
      {"{{ '\u3000 a\n' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ ' a' | trim(none) }}|", "a|a|a|"},
      {"{{ 'aaa' | replace('a', 'b', 2) }} {{ 'a1' | replace(1, 2) }} {{ 'ab' | replace('', '.') }}",
       "bba a2 .a.b."},
      {"{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent('> ', blank=true) }}",
       "a\n    b\n\n    c|  a\n  b|a\n> \n> b"},
      {"{{ 'a' | center(4) }}|{{ 'a b c' | wordcount }} {{ 'a b/é' | urlencode }} {{ {'a': 'b&'} | urlencode "
       "}} "
       "{{ [['k', 1]] | urlencode }}",
       " a  |3 a%20b/%C3%A9 a=b%26 k=1"},
      {"{{ 'abcdef ghi jkl' | truncate(9) }} {{ 'abcdef ghi jkl' | truncate(9, true, '!', 0) }} {{ 'abc' | "
       "truncate(3) }}",
       "abcdef ghi jkl abcdef g! abc"},
      {"{{ 'one two three four' | truncate(12) }}", "one two..."},
      {"{{ {'a': '<', 'b': none} | xmlattr }} {{ '%s-%03d' | format('a', 7) }} {{ '%(x)s' | format(x=1) }}",
       " a=\"&lt;\" a-007 1"},
      {"{{ 5 | string ~ (none | string) }} {{ 'x' | pprint }} {{ '' | default('b') }}|{{ y | d('e') }}",
       "5None 'x' |e"},
  });
  expect_refuses({
      {"{{ 'a' | upper(1) }}", "the filter takes 0 arguments, not 1"},
      {"{{ 'a' | replace('b') }}", "replace lacks its argument 'new'"},
      {"{{ 'a' | replace('b', 'c', old='d') }}", "replace gets 'old' twice"},
      {"{{ 'a' | indent(depth=2) }}", "indent takes no argument named 'depth'"},
      {"{{ 'a' | trim(1) }}", "argument 1 of trim is int, want a text"},
      {"{{ 5 | indent }}", "indent of a value of type int, want a text"},
      {"{{ y | indent }}", "'y' is undefined"},
      {"{{ 5 | truncate }}", "truncate of a value of type int, want a text"},
      {"{{ [1] | urlencode }}", "a value of type int cannot be walked over"},
      {"{{ [[1]] | urlencode }}", "urlencode of a row of 1 values, want pairs"},
      {"{{ 'abc' | truncate(2) }}", "truncate to 2 characters, want at least those of '...'"},
      {"{{ 'a' | xmlattr }}", "xmlattr of a value of type str, want a dict"},
      {"{{ {'a b': 1} | xmlattr }}", "xmlattr: 'a b' is no name of an attribute"},
      {"{{ 'a' | format(1, x=2) }}", "format takes arguments by position or by name"},
  });
}

TEST(JinjaFilter, NumbersRoundAndConvertAsInPython) {
  expect_renders({
      {"{{ '3.7' | int }} {{ ' 12 ' | int }} {{ 'x' | int(7) }} {{ -3.9 | int }} {{ none | int }} {{ '1f' | "
       "int(base=16) }}",
       "3 12 7 -3 0 31"},
      {"{{ '0x1f' | int(0, 16) }} {{ '-11' | int(0, 2) }} {{ '1_000' | int }} {{ '1__0' | int }} {{ true | "
       "int }}",
       "31 -3 1000 0 1"},
      {"{{ '1' ~ '0' * 40 | int ~ '' }} {{ 1e20 | int }}",
       "10000000000000000000000000000000000000000 100000000000000000000"},
      {"{{ '3.5' | float }} {{ 'x' | float }} {{ 3 | float }} {{ '1e3' | float }} {{ '0x1' | float(2) }}",
       "3.5 0.0 3.0 1000.0 2"},
      {"{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.345 | round(2) }} {{ 7 | round }} {{ 1234 | round(-2) }} {{ "
       "true | round }}",
       "2.0 4.0 2.35 7 1200 1"},
      {"{{ 2.1 | round(method='ceil') }} {{ 2.19 | round(1, 'floor') }} {{ -3 | abs }} {{ -2.5 | abs }}",
       "3.0 2.1 3 2.5"},
      {"{{ 1 | filesizeformat }} {{ 999 | filesizeformat }} {{ 1234567 | filesizeformat }} {{ 2048 | "
       "filesizeformat(true) }}",
       "1 Byte 999 Bytes 1.2 MB 2.0 KiB"},
  });
  expect_refuses({
      {"{{ 'a' | abs }}", "abs of a value of type str, want a number"},
      {"{{ 'a' | round }}", "round of a value of type str, want a number"},
      {"{{ 1 | round(400) }}", "round to 400 places, want -300 to 300"},
      {"{{ 1 | round(0, 'up') }}", "round with the method 'up', want common, ceil or floor"},
      {"{{ 1e300 | int }}", "int of 1e+300, want at most 38 digits"},
      {"{{ 'a' | int(base=99) }}", "int to base 99, want 2 to 36"},
      {"{{ 'ffffffffffffffffffffffffffffffffff' | int(base=16) }}",
       "int of a text of 34 digits, want at most 120 bits"},
      {"{{ 'a' | filesizeformat }}", "filesizeformat of a value of type str, want a number"},
  });
}

TEST(JinjaFilter, RowsAreSortedSelectedAndJoined) {
  expect_renders({
      {"{{ [3, 1, 2] | sort }} {{ ['b', 'A', 'a'] | sort }} {{ ['b', 'A', 'a'] | sort(case_sensitive=true) "
       "}} {{ [1, 2] | sort(true) }}",
       "[1, 2, 3] ['A', 'a', 'b'] ['A', 'a', 'b'] [2, 1]"},
      {"{{ [{'a': 2, 'b': 1}, {'a': 1, 'b': 1}] | sort(attribute='b,a') | map(attribute='a') | join }}",
       "12"},
      {"{{ {'b': 1, 'A': 3, 'a': 2} | dictsort }} {{ {'b': 1, 'a': 2} | dictsort(by='value', reverse=true) "
       "}}",
       "[('A', 3), ('a', 2), ('b', 1)] [('a', 2), ('b', 1)]"},
      {"{{ ['a', 'A', 1, 1.0, 'b'] | unique | list }} {{ [3, 1] | min }} {{ ['b', 'C'] | max }} {{ [1, 2.5] "
       "| sum }}",
       "['a', 1, 'b'] 1 C 3.5"},
      {"{{ [{'n': 2}] | sum('n', 10) }} {{ [{'n': 2}, {'n': 1}] | min(attribute='n') }}", "12 {'n': 1}"},
      {"{{ [1, none, true] | join('-') }} {{ [{'a': 1}, {'a': 2}] | join(',', 'a') }} {{ 'abc' | join('-') "
       "}}",
       "1-None-True 1,2 a-b-c"},
      {"{{ [1, 2] | first }}{{ [1, 2] | last }}{{ 'abc' | first }}{{ {'k': 1} | last }}{{ [7] | random }}",
       "12ak7"},
      {"{{ 'abc' | reverse }} {{ [1, 2] | reverse | list }} {{ 'abc' | list }} {{ {'a': 1} | items | list }}",
       "cba [2, 1] ['a', 'b', 'c'] [('a', 1)]"},
      {"{{ range(5) | batch(2) | list }} {{ [1] | batch(3, 'x') | list }} {{ range(5) | slice(2) | list }} "
       "{{ [1] | slice(2, 0) | list }}",
       "[[0, 1], [2, 3], [4]] [[1, 'x', 'x']] [[0, 1, 2], [3, 4]] [[1], [0]]"},
      {"{{ [{'g': 2}, {'g': 1, 'v': 1}, {'g': 2}] | groupby('g') }} {{ [{}] | groupby('g', default='d') }}",
       "[(1, [{'g': 1, 'v': 1}]), (2, [{'g': 2}, {'g': 2}])] [('d', [{}])]"},
      {"{{ [0, 1, '', 'a'] | select | list }} {{ [1, 2, 3] | reject('equalto', 2) | list }} {{ [1, 2] | "
       "select('>', 1) | list }}",
       "[1, 'a'] [1, 3] [2]"},
      {"{{ [{'r': 'u'}, {'r': 'a'}, {}] | selectattr('r', 'equalto', 'u') | list }} {{ [{'r': 1}, {}] | "
       "rejectattr('r') | list }}",
       "[{'r': 'u'}] [{}]"},
      {"{{ [{'a': {'b': [5]}}] | map(attribute='a.b.0') | list }} {{ [[1]] | map(attribute=0) | list }} {{ "
       "[{}] | map(attribute='a', default=2) | list }}",
       "[5] [1] [2]"},
      {"{{ ['ab'] | map('replace', 'a', 'x') | list }} {{ x | items | list }} {{ none | map('upper') | list "
       "}} {{ {'a': 1} | count }} {{ "
       "{'a': 1} | attr('a') is defined }}",
       "['xb'] [] [] 1 False"},
  });
  expect_refuses({
      {"{{ 5 | length }}", "a value of type int has no length"},
      {"{{ [1] | map('abs') | last }}", "last of a generator"},
      {"{{ 'a' | items }}", "items of a value of type str, want a dict"},
      {"{{ [1] | dictsort }}", "dictsort of a value of type list, want a dict"},
      {"{{ {} | dictsort(by='x') }}", "dictsort by 'x', want key or value"},
      {"{{ [1, 'a'] | sort }}", "'<' between str and int"},
      {"{{ [[1]] | unique }}", "unique of a value of type list"},
      {"{{ [1] | batch(0) }}", "batch by 0, want at least 1"},
      {"{{ [1] | slice(0) }}", "slice into 0, want at least 1"},
      {"{{ [1] | map('nosuch') }}", "no filter is named 'nosuch'"},
      {"{{ [1] | map(1) }}", "the name of a filter is int, want a text"},
      {"{{ [1] | select('nosuch') }}", "no test is named 'nosuch'"},
      {"{{ [1] | selectattr }}", "selectattr or rejectattr lacks the name of an attribute"},
      {"{{ [1] | map }}", "map lacks its argument 'attribute'"},
  });
}

TEST(JinjaFilter, TestsAskForKindAndIdentity) {
  expect_renders({
      {"{{ 1 is number }}{{ true is number }}{{ true is integer }}{{ 1.0 is float }}{{ true is boolean }}{{ "
       "1 is boolean }}",
       "TrueTrueFalseTrueTrueFalse"},
      {"{{ 1 is true }}{{ true is true }}{{ 0 is false }}{{ none is none }}{{ {} is mapping }}{{ [] is "
       "mapping }}",
       "FalseTrueFalseTrueTrueFalse"},
      {"{{ {} is sequence }}{{ 'a' is sequence }}{{ 1 is iterable }}{{ range(1) is sequence }}{{ {}.items() "
       "is sequence }}"
       "{{ {}.items() is iterable }}",
       "TrueTrueFalseTrueFalseTrue"},
      {"{{ 1 is ne 2 }}{{ 1 is lt 2 }}{{ 2 is le 2 }}{{ 3 is gt 2 }}{{ 2 is ge(3) }}{{ 3 is odd }}",
       "TrueTrueTrueTrueFalseTrue"},
      {"{{ range is callable }}{{ 'a' is callable }}{{ 'A' is upper }}{{ 'a' is lower }}{{ '1' is upper }}",
       "TrueFalseTrueTrueFalse"},
      {"{{ 'trim' is filter }}{{ 'x' is filter }}{{ 'odd' is test }}{{ none is sameas none }}{{ 1 is sameas "
       "1.0 }}",
       "TrueFalseTrueTrueFalse"},
  });
  expect_refuses({{"{{ 1 is eq }}", "the test lacks its argument 'other'"},
                  {"{{ 1 is divisibleby 0 }}", "division by zero"}});
}

TEST(JinjaFilter, TextMethodsFollowPython) {
  expect_renders({
      {"{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a-b-c'.split('-', 1) }} {{ ' a  b "
       "c'.split(none, 1) }}",
       "['a', 'b', '', 'c'] ['a', 'b'] ['a', 'b-c'] ['a', 'b c']"},
      {"{{ 'a b c'.rsplit(' ', 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ 'k=v=w'.partition('=') }} {{ "
       "'k=v=w'.rpartition('=') }}",
       "['a b', 'c'] [' a b', 'c'] ('k', '=', 'v=w') ('k=v', '=', 'w')"},
      {"{{ '\\n a \\n'.strip('\\n') }}|{{ 'xxaxx'.lstrip('x') }} {{ 'xxaxx'.rstrip('x') }} {{ "
       "'éaé'.strip('é') }}",
       " a |axx xxa a"},
      {"{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'aXbX'.replace('X', '-', 1) }}",
       "TrueTruea-bX"},
      {"{{ \"they're\".title() }} {{ 'hELLO'.capitalize() }} {{ 'ß'.upper() }} {{ 'ΑΣ'.lower() }} {{ "
       "'ΑΣ'.title() }}",
       "They'Re Hello SS ας Ας"},
      {"{{ ', '.join(['a', 'b']) }} {{ 'éabc'.find('b') }} {{ 'abc'.find('x') }} {{ 'aXa'.rfind('a') }} {{ "
       "'aa'.count('a') }}",
       "a, b 2 -1 2 2"},
      {"{{ 'a\\nb\\r\\nc\\n'.splitlines() }} {{ 'a\\nb'.splitlines(true) }}",
       "['a', 'b', 'c'] ['a\\n', 'b']"},
      {"{{ 'a1'.isalnum() }}{{ 'a1'.isalpha() }}{{ '12'.isdigit() }}{{ ' '.isspace() }}{{ ''.isspace() }}{{ "
       "'aB'.islower() }}{{ 'A'.isupper() }}",
       "TrueFalseTrueTrueFalseFalseTrue"},
      {"{{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('c') }} {{ '-5'.zfill(4) }} {{ 'a'.ljust(3) }}|{{ "
       "'a'.rjust(3, '.') }} {{ 'ab'.center(5) }}|",
       "bcab -005 a  |..a   ab |"},
      {"{{ '%s is %5.2f, %-4d|%x %X %o %e %%' % ('x', 1.005, 3, 255, 255, 8, 12345.678) }}",
       "x is  1.00, 3   |ff FF 10 1.234568e+04 %"},
      {"{{ '%+d % d %04d %#x %r %c %.2s %(a)s' % {'a': 1} if false else '%(a)s%%' % {'a': 1} }} {{ '%+d %04d "
       "%.2s %r %c' % (1, -2, 'abc', 'q', 'z') }}",
       "1% +1 -002 ab 'q' z"},
      {"{{ '{} {{}} {}'.format('a', 1) }} {{ '{1}{0}{x}'.format(1, 2, x=3) }} {{ 'é'.encode() }}",
       "a {} 1 213 b'\\xc3\\xa9'"},
      {"{{ [1, 2].index(2) }} {{ [1, 1].count(1) }} {{ (1, 2).index(1) }} {{ {'z': 1}.get('q') }} {{ {'z': "
       "1}.get('q', 2) }} {{ {'a': 1}.copy() }}",
       "1 2 0 None 2 {'a': 1}"},
  });
  expect_refuses({
      {"{{ 'a'.nosuch() }}", "a value of type str has no attribute 'nosuch'"},
      {"{{ 'a'.split('') }}", "split() by an empty text"},
      {"{{ 'a'.rsplit('') }}", "rsplit() by an empty text"},
      {"{{ 'a'.partition('') }}", "partition() by an empty text"},
      {"{{ 'a'.rpartition('') }}", "rpartition() by an empty text"},
      {"{{ 'a'.startswith((1,)) }}", "of a tuple that holds int, want texts"},
      {"{{ 'a'.strip(1) }}", "argument 1 of strip() is int, want a text"},
      {"{{ 'a'.join([1]) }}", "join() of a value of type int, want texts"},
      {"{{ 'a'.index('b') }}", "index(): the text does not hold that part"},
      {"{{ [1].index(2) }}", "index(): the value is not in the list"},
      {"{{ 'a'.center(9, 'xy') }}", "the text to pad with has 2 characters, want 1"},
      {"{{ '%d' % 'a' }}", "%d of a value of type str, want a number"},
      {"{{ '%x' % 1.5 }}", "%x of 1.5, want an integer"},
      {"{{ '%f' % 'a' }}", "%f of a value of type str, want a number"},
      {"{{ '%c' % 'ab' }}", "%c of a value of type str, want one character"},
      {"{{ '%q' % 1 }}", "the % format has no letter 'q'"},
      {"{{ '%s %s' % 'a' }}", "not enough values for the % format"},
      {"{{ '%s %s' % ('a',) }}", "not enough values for the % format"},
      {"{{ '%s' % (1, 2) }}", "not all values were used"},
      {"{{ '%(a)s' % 1 }}", "a % format with names, want a dict"},
      {"{{ '%(a)s' % {} }}", "the % format names 'a', which is not given"},
      {"{{ '%(a' % {} }}", "a name in a % format has no end"},
      {"{{ '{}'.format() }}", "format(): no value for {}"},
      {"{{ '{a!r}'.format(a=1) }}", "format(): '{a!r}', want {}, {0} or {name}"},
      {"{{ '{'.format() }}", "format(): a single { in the text"},
      {"{{ '}'.format() }}", "format(): a single } in the text"},
  });
}

TEST(JinjaFilter, FunctionsThatEveryTemplateSees) {
  expect_renders({
      {"{{ range(3) | list }} {{ range(5, 0, -2) | list }} {{ range(0) | list }} {{ range(9)[-1] }} {{ "
       "range(4) | length }}",
       "[0, 1, 2] [5, 3, 1] [] 8 4"},
      {"{{ dict(a=1, b=2) }} {{ dict([['x', 1]]) }} {{ dict({'y': 2}, z=3) }}",
       "{'a': 1, 'b': 2} {'x': 1} {'y': 2, 'z': 3}"},
      {"{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() "
       "}}{{ c.current }}",
       "ababNonea"},
      {"{% set j = joiner('-') %}{{ j() }}a{{ j() }}b{{ j() }}", "a-b-"},
      {"{{ strftime_now('%Y-%m-%d %d %b %Y %B %A %H:%M:%S %j %%') }}|{{ strftime_now('') }}",
       "2025-01-01 01 Jan 2025 January Wednesday 00:00:00 001 %|"},
  });
  expect_refuses({
      {"a\n{{ raise_exception('no ' ~ 1) }}", "test:2:4: no 1"},
      {"{{ raise_exception() }}", "raise_exception() lacks its argument 'message'"},
      {"{{ range(100001) }}", "range() of more than 100000 numbers"},
      {"{{ range(1, 2, 0) }}", "range() with step 0"},
      {"{{ range(1.5) }}", "argument 1 of range() is float, want an integer"},
      {"{{ dict(1, 2) }}", "dict() takes at most 1 argument without a name"},
      {"{{ dict([[1]]) }}", "dict() of a row of 1 values, want pairs"},
      {"{{ cycler() }}", "cycler() wants at least 1 item"},
      {"{{ lipsum() }}", "lipsum() makes random text"},
      {"{{ strftime_now('%A' * 500) }}", "strftime_now() makes more than 1022 bytes"},
  });
}

}  // namespace
}  // namespace nanovllm
