#include "nsa/base/secrets.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace nsa {
namespace {

using View = std::string_view;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_word(char c) {
  return is_letter(c) || is_digit(c);
}
bool is_name(char c) {
  return is_word(c) || c == '_' || c == '-' || c == '.';
}
bool is_token(char c) {
  return is_word(c) || c == '_' || c == '-';
}
bool is_base64(char c) {
  return is_token(c) || c == '.' || c == '~' || c == '+' || c == '/' || c == '=';
}
bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool begins(View text, View with) {  // whatever the case of letters
  return text.size() >= with.size() &&
         std::equal(with.begin(), with.end(), text.begin(), [](char a, char b) {
           return lower(a) == lower(b);
         });
}

template <typename Kind>
std::size_t span_of(View text, std::size_t from, Kind kind) {
  std::size_t at = from;
  while (at < text.size() && kind(text[at])) ++at;
  return at - from;
}

// ---- values ------------------------------------------------------------------------------------------------------------

bool is_number(View value) {
  return !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return is_digit(c) || c == '.' || c == '-' || c == '+' || c == 'e';
  });
}

// What follows Basic and Bearer in prose is a word of small letters.
bool looks_encoded(View value) {
  const bool digit = std::any_of(value.begin(), value.end(), is_digit);
  const bool small =
      std::any_of(value.begin(), value.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  const bool large = value.size() > 1 && std::any_of(value.begin() + 1, value.end(), [](char c) {
                       return c >= 'A' && c <= 'Z';
                     });
  return digit || (small && large) || value.find('=') != View::npos || value.size() >= 20;
}

struct TokenForm {
  View begin;
  std::size_t least;  // characters that follow
  bool word;          // only letters and digits
  bool needs_digit;   // among them
};

constexpr std::array<TokenForm, 44> kForms = {
    {{"ghp_", 20, true, false},      {"gho_", 20, true, false},
     {"ghu_", 20, true, false},      {"ghs_", 20, true, false},
     {"ghr_", 20, true, false},      {"github_pat_", 20, false, false},
     {"glpat-", 12, false, false},   {"gldt-", 12, false, false},
     {"sk-", 16, false, true},       {"sk_live_", 10, false, false},
     {"sk_test_", 10, false, false}, {"rk_live_", 10, false, false},
     {"rk_test_", 10, false, false}, {"pk_live_", 10, false, false},
     {"whsec_", 10, false, false},   {"hf_", 20, true, false},
     {"api_org_", 20, true, false},  {"AKIA", 16, true, false},
     {"ASIA", 16, true, false},      {"xoxa-", 8, false, false},
     {"xoxb-", 8, false, false},     {"xoxc-", 8, false, false},
     {"xoxe-", 8, false, false},     {"xoxp-", 8, false, false},
     {"xoxr-", 8, false, false},     {"xoxs-", 8, false, false},
     {"xapp-", 8, false, false},     {"npm_", 30, true, false},
     {"pypi-", 20, false, true},     {"AIza", 30, false, false},
     {"ya29.", 20, false, false},    {"GOCSPX-", 16, false, false},
     {"dop_v1_", 20, true, false},   {"SG.", 16, false, true},
     {"shpat_", 20, true, false},    {"dckr_pat_", 16, false, false},
     {"tskey-", 16, false, false},   {"nvapi-", 16, false, false},
     {"gsk_", 20, true, false},      {"xai-", 20, false, true},
     {"r8_", 30, true, false},       {"AGE-SECRET-KEY-1", 20, true, false},
     {"hvs.", 16, false, true},      {"ATATT3x", 16, false, false}}};

// ---- the scanner -------------------------------------------------------------------------------------------------------

// Each finds a secret that begins at the place, and says which part of the text is hidden.
struct Hidden {
  std::size_t from = 0;
  std::size_t to = 0;
};
using Found = std::optional<Hidden>;

bool is_border(View text, std::size_t at) {
  return at == 0 || !is_word(text[at - 1]);
}

bool ends_url(char c) {
  return is_blank(c) || c == '\n' || c == '\r' || c == '"' || c == '\'' || c == '<' || c == '>' ||
         c == '`' || c == '\\';
}

// "//user:password@host": what stands before the last @ that can belong to the host's part.
Found user_in_url(View text, std::size_t at) {
  if (!text.substr(at).starts_with("//")) return {};
  const std::size_t from = at + 2;
  std::size_t end = from;
  while (end < text.size() && !ends_url(text[end])) ++end;
  const View url = text.substr(from, end - from);
  const std::size_t slash = url.find_first_of("/?#");
  std::size_t sign = url.substr(0, slash).rfind('@');
  if (sign == View::npos) {  // a slash in a password: before it stands no port
    sign = url.rfind('@');
    const std::size_t colon = url.find(':');
    if (sign == View::npos || slash == View::npos || sign < slash || colon > slash) return {};
    const View port = url.substr(colon + 1, slash - colon - 1);
    if (port.empty() || std::all_of(port.begin(), port.end(), is_digit)) return {};
  }
  const View user = url.substr(0, sign);
  if (user.empty() || user == kHidden) return {};
  if (user.find(':') == View::npos && user.size() < 16 && user.find('%') == View::npos) return {};
  return Hidden{from, from + sign};
}

Found scheme_of_header(View text, std::size_t at) {
  if (!is_border(text, at)) return {};
  for (const View scheme : {"bearer", "basic"}) {
    if (!begins(text.substr(at), scheme)) continue;
    std::size_t from = at + scheme.size();
    const std::size_t blanks = span_of(text, from, is_blank);
    from += blanks;
    if (blanks == 0 && begins(text.substr(from), "%20")) {
      from += 3;
    } else if (blanks == 0) {
      continue;
    }
    const std::size_t length = span_of(text, from, is_base64);
    if (length < 6 || !looks_encoded(text.substr(from, length))) continue;
    return Hidden{from, from + length};
  }
  return {};
}

Found known_token(View text, std::size_t at) {
  if (!is_border(text, at)) return {};
  for (const TokenForm& form : kForms) {
    if (!text.substr(at).starts_with(form.begin)) continue;
    const std::size_t from = at + form.begin.size();
    const std::size_t length =
        form.word ? span_of(text, from, is_word)
                  : span_of(text, from, [](char c) { return is_token(c) || c == '.'; });
    const View rest = text.substr(from, length);
    if (length < form.least) continue;
    if (form.needs_digit && std::none_of(rest.begin(), rest.end(), is_digit)) continue;
    return Hidden{at, from + length};
  }
  if (text.substr(at).starts_with("eyJ")) {  // a JSON Web Token: two or three parts
    const std::size_t head = span_of(text, at, is_token);
    if (head < 10 || at + head >= text.size() || text[at + head] != '.') return {};
    const std::size_t rest =
        span_of(text, at + head, [](char c) { return is_token(c) || c == '.'; });
    if (rest > 8) return Hidden{at, at + head + rest};
  }
  return {};
}

Found web_hook(View text, std::size_t at) {
  for (const View begin : {"hooks.slack.com/services/",
                           "discord.com/api/webhooks/",
                           "discordapp.com/api/webhooks/",
                           "api.telegram.org/bot"}) {
    if (!text.substr(at).starts_with(begin)) continue;
    const std::size_t from = at + begin.size();
    const std::size_t length = span_of(text, from, [](char c) { return is_base64(c) || c == ':'; });
    if (length > 0) return Hidden{from, from + length};
  }
  return {};
}

// "?sig=x", "&X-Amz-Signature=x": how storage is shared by a link.
Found signed_link(View text, std::size_t at) {
  if (text[at] != '?' && text[at] != '&') return {};
  for (const View name : {"sig=", "signature=", "x-amz-signature=", "x-amz-credential=", "key="}) {
    if (!begins(text.substr(at + 1), name)) continue;
    const std::size_t from = at + 1 + name.size();
    const std::size_t length = span_of(text, from, [](char c) { return is_base64(c) || c == '%'; });
    if (length > 0) return Hidden{from, from + length};
  }
  return {};
}

Found private_key(View text, std::size_t at) {
  if (!text.substr(at).starts_with("-----BEGIN ")) return {};
  const std::size_t title = text.find("-----", at + 11);
  if (title == View::npos) return {};
  if (text.substr(at, title - at).find("PRIVATE KEY") == View::npos) return {};
  const std::size_t from = title + 5;
  const std::size_t end = text.find("-----END ", from);
  return Hidden{from, end == View::npos ? text.size() : end};
}

// The value in quotes, also in those that a JSON text or a shell has put a backslash before.
Found quoted_value(View text, std::size_t at) {
  const bool escaped = text[at] == '\\';
  const std::size_t quote_at = at + (escaped ? 1 : 0);
  if (quote_at >= text.size() || (text[quote_at] != '"' && text[quote_at] != '\'')) return {};
  const char quote = text[quote_at];
  const std::size_t from = quote_at + 1;
  std::size_t end = from;
  while (end < text.size() && text[end] != '\n') {
    if (escaped && text[end] == '\\' && end + 1 < text.size() && text[end + 1] == quote) break;
    if (!escaped && text[end] == quote) break;
    end += !escaped && text[end] == '\\' ? 2 : 1;
  }
  end = std::min(end, text.size());
  return end > from ? Found(Hidden{from, end}) : Found();
}

Found bare_value(View text, std::size_t from) {
  const std::size_t length = span_of(text, from, [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != '"' && c != '\'' && c != '<' && c != '>' &&
           c != '`' && c != ',' && c != ';' && c != '&' && c != ')' && c != '}' && c != ']' &&
           c != '|' && c != '\\';
  });
  return length > 0 ? Found(Hidden{from, from + length}) : Found();
}

// "Authorization: Bearer x": the scheme stays.
std::size_t after_scheme(View text, std::size_t at) {
  for (const View scheme : {"bearer ", "basic ", "token ", "digest "}) {
    if (begins(text.substr(at), scheme)) return at + scheme.size();
  }
  return at;
}

// NAME=x, name: x, "name": "x", --name x, --name=x.
Found named_value(View text, std::size_t at) {
  if (at > 0 && is_name(text[at - 1])) return {};
  const std::size_t length = span_of(text, at, is_name);
  if (length < 3) return {};
  const View name = text.substr(at, length);
  if (!is_secret_name(name)) return {};
  std::size_t value = at + length;
  while (value < text.size() &&
         (text[value] == '"' || text[value] == '\'' || text[value] == '\\')) {
    ++value;
  }
  value += span_of(text, value, is_blank);
  if (value >= text.size()) return {};
  const bool assigned = text[value] == '=' || text[value] == ':';
  if (assigned) {
    value += text.substr(value, 2) == "=>" || text.substr(value, 2) == ":=" ? 2 : 1;
    value += span_of(text, value, is_blank);
  } else if (name.front() != '-' || value == at + length || text[value] == '-') {
    return {};
  }
  value = after_scheme(text, value);
  if (value >= text.size() || text.substr(value).starts_with(kHidden)) return {};
  const Found quoted = quoted_value(text, value);
  const Found found = quoted ? quoted : bare_value(text, value);
  if (!found) return {};
  const View hidden = text.substr(found->from, found->to - found->from);
  std::string plain(name);
  std::transform(plain.begin(), plain.end(), plain.begin(), lower);
  const bool strong = plain.find("passw") != std::string::npos;
  if (hidden == kHidden || (!strong && is_number(hidden))) return {};
  // "unknown token: the" speaks of a text.
  const bool weak = text[at + length] == ':' && (plain == "token" || plain == "auth");
  if (weak && !looks_encoded(hidden)) return {};
  return found;
}

}  // namespace

std::string without_secrets(View text) {
  std::string result;
  std::size_t kept = 0;
  for (std::size_t at = 0; at < text.size();) {
    Found found;
    for (const auto find : {&user_in_url,
                            &scheme_of_header,
                            &known_token,
                            &web_hook,
                            &signed_link,
                            &private_key,
                            &named_value}) {
      found = find(text, at);
      if (found) break;
    }
    if (!found) {
      ++at;
      continue;
    }
    result += text.substr(kept, found->from - kept);
    result += kHidden;
    kept = found->to;
    at = std::max(found->to, at + 1);
  }
  if (kept == 0) return std::string(text);
  result += text.substr(kept);
  return result;
}

std::vector<std::string> words_without_secrets(const std::vector<std::string>& words) {
  std::vector<std::string> result;
  bool value = false;  // the next word is one
  bool user = false;   // the next word is NAME:PASSWORD
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const View name = View(word).substr(0, equals);
    const bool is_named = span_of(name, 0, is_name) == name.size() && is_secret_name(name);
    const bool option = word.size() > 1 && word.front() == '-';
    const std::size_t colon = word.find(':');
    if (value && !option && !is_number(word)) {
      result.emplace_back(kHidden);
    } else if (user && colon != std::string::npos) {
      result.push_back(word.substr(0, colon + 1) + std::string(kHidden));
    } else if (is_named && equals != std::string::npos && equals + 1 < word.size() &&
               !is_number(View(word).substr(equals + 1))) {
      result.push_back(word.substr(0, equals + 1) + std::string(kHidden));
    } else {
      result.push_back(without_secrets(word));
    }
    value = option && equals == std::string::npos && (is_named || word == "-p" || name == "--key");
    user = word == "-u" || word == "--user" || word == "--proxy-user";
  }
  return result;
}

namespace {

// As keys are drawn: letters of both cases and digits, mixed, in one long piece. Hashes and ids are of small letters.
bool looks_drawn(View value) {
  if (value.size() < 24 || span_of(value, 0, is_base64) < value.size()) return false;
  if (value.find('/') != View::npos && value.front() == '/') return false;
  int changes = 0;
  const auto kind = [](char c) {
    return is_digit(c) ? 0 : c >= 'a' && c <= 'z' ? 1 : c >= 'A' && c <= 'Z' ? 2 : 3;
  };
  std::array<int, 4> counts{};
  for (std::size_t i = 0; i < value.size(); ++i) {
    ++counts.at(static_cast<std::size_t>(kind(value[i])));
    if (i > 0 && kind(value[i]) != kind(value[i - 1])) ++changes;
  }
  const auto size = static_cast<int>(value.size());
  const bool hex =
      std::none_of(value.begin(), value.end(), [](char c) { return c > 'f' && c <= 'z'; });
  return !hex && counts[0] >= 2 && counts[1] >= 2 && counts[2] >= 2 && changes * 3 >= size &&
         counts[3] * 8 <= size;
}

}  // namespace

std::string value_without_secrets(View name, View value) {
  const bool hidden = is_secret_name(name) && !value.empty() && !is_number(value);
  return hidden || looks_drawn(value) ? std::string(kHidden) : without_secrets(value);
}

}  // namespace nsa
