#include "nsa/seams/by_hand/by_hand.h"

namespace nsa::by_hand {

std::vector<Implementation> implementations() {
  const auto row = [](const char* seam, void (*install)(AttentionSeams&)) {
    const auto can_do_all = [](const ModelConfig&, const Surroundings*) { return std::string(); };
    return Implementation{seam, kName, can_do_all, install};
  };
  return {row("compress", [](AttentionSeams& seams) { seams.compress = compress; }),
          row("score", [](AttentionSeams& seams) { seams.score = score; }),
          row("select", [](AttentionSeams& seams) { seams.select = select; }),
          row("attend_cmp", [](AttentionSeams& seams) { seams.attend_cmp = attend_cmp; }),
          row("attend_sel", [](AttentionSeams& seams) { seams.attend_sel = attend_sel; }),
          row("attend_win", [](AttentionSeams& seams) { seams.attend_win = attend_win; })};
}

bool is_asked_for(const std::map<std::string, std::string>& route, const std::string& seam) {
  const auto asked = route.find(seam);
  return asked != route.end() && asked->second == kName;
}

void put_over(AttentionSeams& seams, const std::map<std::string, std::string>& route) {
  for (const Implementation& one : implementations()) {
    if (is_asked_for(route, one.seam)) one.install(seams);
  }
}

}  // namespace nsa::by_hand
