#include "harness/judge/wording/find_wording.h"

#include <algorithm>

#include "harness/judge/codes/codes.h"

namespace harness {

const std::vector<Wording>& all_wordings() {
  static const std::vector<Wording> kAll = [] {
    std::vector<Wording> all;
    for (const auto& part : {words_of_machine(),
                             words_of_processes(),
                             words_of_setup(),
                             words_of_forward(),
                             words_of_gradients(),
                             words_of_ranks(),
                             words_of_training()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return kAll;
}

const Wording* find_wording(std::string_view code, std::string_view variant) {
  const std::vector<Wording>& all = all_wordings();
  const auto at = std::find_if(all.begin(), all.end(), [&](const Wording& words) {
    return words.code == code && words.variant == variant;
  });
  return at == all.end() ? nullptr : &*at;
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
