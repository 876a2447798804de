#include <algorithm>
#include <array>

#include "nsa/base/secrets.h"

namespace nsa {
namespace {

using View = std::string_view;

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// "dbPassword" and "DB-PASSWORD" as "db_password".
std::string snake(View name) {
  std::string result;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool hump = i > 0 && c >= 'A' && c <= 'Z' && name[i - 1] >= 'a' && name[i - 1] <= 'z';
    if (hump) result += '_';
    result +=
        is_alphanumeric(c) ? (c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) : '_';
  }
  return result;
}

bool has_word(const std::string& snake_name, View word) {
  const std::string between = "_" + snake_name + "_";
  return between.find("_" + std::string(word) + "_") != std::string::npos;
}

// Whatever stands around them.
constexpr std::array<View, 9> kAnywhere = {"passw",
                                           "passphrase",
                                           "secret",
                                           "credential",
                                           "apikey",
                                           "api_key",
                                           "accesskey",
                                           "authtoken",
                                           "privatekey"};
// As a whole word of the name.
constexpr std::array<View, 12> kWords = {"pwd",
                                         "passwd",
                                         "creds",
                                         "cred",
                                         "cookie",
                                         "bearer",
                                         "jwt",
                                         "dsn",
                                         "authorization",
                                         "otp",
                                         "webhook",
                                         "pat"};
// As the last word: a tokenizer, a key of a table and an author are none.
constexpr std::array<View, 4> kLast = {"token", "auth", "access_key", "private_key"};

bool is_plain_key(const std::string& name) {
  for (const View before : {"db",
                            "user",
                            "admin",
                            "root",
                            "mysql",
                            "pg",
                            "smtp",
                            "mail",
                            "login",
                            "redis",
                            "http",
                            "proxy",
                            "key"}) {
    if (name.ends_with(std::string(before) + "_pass")) return true;
  }
  for (const View before : {"access",
                            "account",
                            "signing",
                            "encryption",
                            "ssh",
                            "deploy",
                            "auth",
                            "license",
                            "shared",
                            "master",
                            "client",
                            "server",
                            "service",
                            "hf",
                            "wandb",
                            "openai",
                            "storage"}) {
    if (name.ends_with(std::string(before) + "_key")) return true;
  }
  return false;
}

}  // namespace

bool is_secret_name(View name) {
  const std::string words = snake(name);
  const std::string bare = words.substr(std::min(words.find_first_not_of('_'), words.size()));
  const auto inside = [&](View part) { return bare.find(part) != std::string::npos; };
  if (std::any_of(kAnywhere.begin(), kAnywhere.end(), inside)) return true;
  const auto word = [&](View one) { return has_word(bare, one); };
  if (std::any_of(kWords.begin(), kWords.end(), word)) return true;
  const auto last = [&](View one) { return bare == one || bare.ends_with("_" + std::string(one)); };
  if (std::any_of(kLast.begin(), kLast.end(), last) || bare.ends_with("token")) return true;
  return is_plain_key(bare);
}

}  // namespace nsa
