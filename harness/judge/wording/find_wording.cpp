#include "harness/judge/wording/find_wording.h"

namespace harness {

const Wording* find_wording(std::string_view code, std::string_view variant) {
  for (const Wording& words : all_wordings()) {
    if (words.code == code && words.variant == variant) return &words;
  }
  return nullptr;
}

bool uses_fact(const Wording& words, std::string_view fact) {
  for (const std::string_view text : {words.statement, words.ruled_out, words.next_action}) {
    const std::vector<std::string> names = names_in(text);
    if (std::find(names.begin(), names.end(), fact) != names.end()) return true;
  }
  return (" " + std::string(words.details) + " ").find(" " + std::string(fact) + " ") !=
         std::string::npos;
}

Finding worded(Finding finding) {
  const Wording* words = find_wording(finding.code, finding.variant);
  if (words == nullptr) return finding;
  const Code* code = find_code(finding.code);
  std::string_view action = words->next_action;
  if (action.empty() && code != nullptr) action = code->next_action;
  finding.statement = rendered(words->statement, finding);
  finding.ruled_out = rendered(words->ruled_out, finding);
  finding.next_action = rendered(action, finding);
  return finding;
}

}  // namespace harness
