#include "tokenizer/jinja_lexer.h"

#include "base/unicode.h"
#include "tokenizer/jinja_literal.h"
#include "tokenizer/jinja_text.h"

namespace nanovllm::jinja {
namespace {

// Longest first, so that ** is not read as two *.
constexpr std::string_view kOperators[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*",
                                           "/",  "%",  "~",  "<",  ">",  "=",  "(", ")", "[",
                                           "]",  "{",  "}",  ".",  ":",  ",",  "|"};

class Lexer {
 public:
  explicit Lexer(const Source& source) : source_(source), text_(source.text) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) read_outside();
    add(Token::kEnd, at_);
    return std::move(tokens_);
  }

 private:
  void add(Token::Kind kind, size_t offset, std::string text = {}, Value number = {}) {
    tokens_.push_back({kind, offset, std::move(text), std::move(number)});
  }

  bool starts(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  void skip_space() {
    while (at_ < text_.size()) {
      const Utf8Head head = utf8_head(text_.substr(at_));
      if (!is_space(head.code_point)) return;
      at_ += size_t(head.length);
    }
  }

  // Text up to the next tag, then that tag.
  void read_outside() {
    size_t tag = at_;
    while ((tag = text_.find('{', tag)) != text_.npos) {
      if (tag + 1 < text_.size() && (text_[tag + 1] == '{' || text_[tag + 1] == '%' || text_[tag + 1] == '#'))
        break;
      ++tag;
    }
    if (tag == text_.npos) {
      add(Token::kText, at_, std::string(text_.substr(at_)));
      at_ = text_.size();
      return;
    }
    const char opener = text_[tag + 1];
    const char sign = sign_at(tag + 2);
    add_text(text_.substr(at_, tag - at_), sign, opener != '{');
    at_ = tag + 2 + (sign != 0);
    if (opener == '#') {
      skip_comment(tag);
    } else if (opener == '%' && enter_raw()) {
      read_raw(tag);
    } else {
      add(opener == '{' ? Token::kPrintBegin : Token::kBlockBegin, tag);
      read_inside(tag, opener == '{' ? "}}" : "%}");
    }
  }

  char sign_at(size_t i) const {
    return i < text_.size() && (text_[i] == '-' || text_[i] == '+') ? text_[i] : 0;
  }

  // Text before a tag, less what the tag's sign or lstrip_blocks takes.
  void add_text(std::string_view text, char sign, bool is_block) {
    if (sign == '-') {
      text = strip(text, Ends::kRight);
    } else if (sign != '+' && is_block) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == text.npos ? 0 : newline + 1;
      if ((line > 0 || at_line_start_) && is_blank(text.substr(line))) text = text.substr(0, line);
    }
    if (!text.empty()) add(Token::kText, at_, std::string(text));
  }

  // Takes what closes a tag ("%}", "-%}", "+%}") and the white space that goes with it, if it stands here.
  bool read_close(std::string_view close) {
    const size_t begin = at_;
    const bool minus = starts("-") && text_.substr(at_ + 1).starts_with(close);
    const bool plus = starts("+") && text_.substr(at_ + 1).starts_with(close) && close != "}}";
    if (!minus && !plus && !starts(close)) return false;
    at_ += close.size() + (minus || plus);
    if (minus)
      skip_space();
    else if (!plus && close != "}}" && starts("\n"))
      ++at_;
    at_line_start_ = text_[at_ - 1] == '\n' && at_ > begin;
    return true;
  }

  void skip_comment(size_t begin) {
    const size_t content = at_;
    const size_t end = text_.find("#}", content);
    if (end == text_.npos) source_.fail_at(begin, "a comment has no end, want #}");
    at_ = end - (end > content && sign_at(end - 1) != 0);
    read_close("#}");
  }

  // Behind "{%": takes "raw %}" if it stands here. The newline after it stays.
  bool enter_raw() {
    const size_t begin = at_;
    skip_space();
    if (starts("raw")) {
      at_ += 3;
      skip_space();
      const bool minus = starts("-%}");
      if (minus || starts("%}")) {
        at_ += minus ? 3 : 2;
        if (minus) skip_space();
        at_line_start_ = text_[at_ - 1] == '\n';
        return true;
      }
    }
    at_ = begin;
    return false;
  }

  void read_raw(size_t begin) {
    for (size_t tag = at_; (tag = text_.find("{%", tag)) != text_.npos; tag += 2) {
      const size_t text_begin = at_;
      const char sign = sign_at(tag + 2);
      at_ = tag + 2 + (sign != 0);
      skip_space();
      if (starts("endraw")) {
        at_ += 6;
        skip_space();
        const size_t close = at_;
        at_ = text_begin;
        const std::string_view text = text_.substr(text_begin, tag - text_begin);
        const bool line_start = at_line_start_;
        at_ = close;
        if (read_close("%}")) {
          at_line_start_ = line_start;
          add_text(text, sign, true);
          at_line_start_ = text_[at_ - 1] == '\n';
          return;
        }
      }
      at_ = text_begin;
    }
    source_.fail_at(begin, "raw has no end, want {% endraw %}");
  }

  void read_inside(size_t begin, std::string_view close) {
    std::vector<char> open;  // brackets: a }} that closes two dicts does not end the tag
    for (;;) {
      skip_space();
      if (at_ >= text_.size()) source_.fail_at(begin, "a tag has no end, want ", close);
      const size_t token = at_;
      if (open.empty() && read_close(close)) {
        add(close == "}}" ? Token::kPrintEnd : Token::kBlockEnd, token);
        return;
      }
      if (read_word()) continue;
      read_operator(open);
    }
  }

  // A number, a name or a string.
  bool read_word() {
    const size_t begin = at_;
    const std::string_view rest = text_.substr(at_);
    if (rest[0] == '\'' || rest[0] == '"') {
      size_t end = 1;
      while (end < rest.size() && rest[end] != rest[0]) end += rest[end] == '\\' ? 2 : 1;
      if (end >= rest.size()) source_.fail_at(begin, "a string has no end, want ", rest[0]);
      at_ += end + 1;
      add(Token::kString, begin, resolve_escapes(source_, begin, rest.substr(1, end - 1)));
      return true;
    }
    if (rest[0] >= '0' && rest[0] <= '9') {
      try {
        const NumberLiteral number = read_number(rest, begin > 0 && text_[begin - 1] == '.');
        at_ += number.length;
        add(Token::kNumber, begin, std::string(rest.substr(0, number.length)), number.value);
      } catch (const Failure& failure) {
        source_.fail_at(begin, failure.what());
      }
      return true;
    }
    const size_t length = name_length(rest);
    if (length == 0) return false;
    at_ += length;
    add(Token::kName, begin, std::string(rest.substr(0, length)));
    return true;
  }

  void read_operator(std::vector<char>& open) {
    for (std::string_view op : kOperators) {
      if (!starts(op)) continue;
      if (op == "(" || op == "[" || op == "{") open.push_back(op == "(" ? ')' : op == "[" ? ']' : '}');
      if (op == ")" || op == "]" || op == "}") {
        if (open.empty()) source_.fail_at(at_, "unexpected '", op, "'");
        if (open.back() != op[0]) source_.fail_at(at_, "unexpected '", op, "', want '", open.back(), "'");
        open.pop_back();
      }
      add(Token::kOperator, at_, std::string(op));
      at_ += op.size();
      return;
    }
    const Utf8Head head = utf8_head(text_.substr(at_));
    source_.fail_at(at_, "unexpected character '", text_.substr(at_, size_t(head.length)), "'");
  }

  const Source& source_;
  std::string_view text_;
  size_t at_ = 0;
  bool at_line_start_ = true;  // whether the text that follows begins a line
  std::vector<Token> tokens_;
};

}  // namespace

std::string describe(const Token& token) {
  switch (token.kind) {
    case Token::kText:
      return "text";
    case Token::kPrintBegin:
      return "'{{'";
    case Token::kPrintEnd:
      return "'}}'";
    case Token::kBlockBegin:
      return "'{%'";
    case Token::kBlockEnd:
      return "'%}'";
    case Token::kString:
      return "a string";
    case Token::kEnd:
      return "the end of the template";
    default:
      return "'" + token.text + "'";
  }
}

std::vector<Token> tokenize(const Source& source) { return Lexer(source).run(); }

}  // namespace nanovllm::jinja
