#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nsa/base/error.h"
#include "nsa/base/text.h"
#include "nsa/seams/historic/historic.h"
#include "nsa/seams/reference/reference.h"
#include "nsa/seams/seams.h"
#include "nsa/seams/sequential/sequential.h"

namespace nsa {

namespace {

// One implementation of one seam of the attention layer.
struct Implementation {
  std::string seam;
  std::string name;
  std::string (*unsupported)(const ModelConfig&);  // what it cannot do, "" when nothing
  void (*install)(AttentionSeams&);
};

using torch::Tensor;

void install_rope(AttentionSeams& seams) {
  seams.rope = [table = reference::make_rope_table()](
                   const SeamContext& context, const Tensor& x_BHSD, std::int64_t first) {
    return reference::rope(context, *table, x_BHSD, first);
  };
}

void install_score(AttentionSeams& seams) {
  seams.score = [](const SeamContext& context, const Tensor& q_BHSD, const Tensor& k_BGCD) {
    return reference::score(context, q_BHSD, k_BGCD);
  };
}

void install_select(AttentionSeams& seams) {
  seams.select = [](const SeamContext& context, const Tensor& p_grp_BGSN) {
    return reference::select(context, p_grp_BGSN);
  };
}

void install_attend_cmp(AttentionSeams& seams) {
  seams.attend_cmp = [](const SeamContext& context,
                        const Tensor& q_BHSD,
                        const Tensor& k_BGCD,
                        const Tensor& v_BGCD) {
    return reference::attend_cmp(context, q_BHSD, k_BGCD, v_BGCD);
  };
}

void install_attend_sel(AttentionSeams& seams) {
  seams.attend_sel = [](const SeamContext& context,
                        const Tensor& q_BHSD,
                        const Tensor& k_BGSD,
                        const Tensor& v_BGSD,
                        const Tensor& blocks_BGSn) {
    return reference::attend_sel(context, q_BHSD, k_BGSD, v_BGSD, blocks_BGSn);
  };
}

// One of the historic forms.
template <auto attend_sel>
void install_historic(AttentionSeams& seams) {
  seams.attend_sel = [](const SeamContext& context,
                        const Tensor& q_BHSD,
                        const Tensor& k_BGSD,
                        const Tensor& v_BGSD,
                        const Tensor& blocks_BGSn) {
    return attend_sel(context, q_BHSD, k_BGSD, v_BGSD, blocks_BGSn, reference::kChunkBytes);
  };
}

void install_attend_win(AttentionSeams& seams) {
  seams.attend_win = [](const SeamContext& context,
                        const Tensor& q_BHSD,
                        const Tensor& k_BGSD,
                        const Tensor& v_BGSD) {
    return reference::attend_win(context, q_BHSD, k_BGSD, v_BGSD);
  };
}

// Every back end of every seam; the first of a seam is its default.
const std::vector<Implementation>& implementations() {
  static const std::vector<Implementation> list = {
      {"attention",
       "reference",
       reference::unsupported,
       [](AttentionSeams& seams) { seams.attention = reference::attention; }},
      {"attention",
       "sequential",
       reference::unsupported,
       [](AttentionSeams& seams) { seams.attention = sequential::attention; }},
      {"project",
       "reference",
       reference::unsupported,
       [](AttentionSeams& seams) { seams.project = reference::project; }},
      {"rope", "reference", reference::unsupported, install_rope},
      {"compress",
       "reference",
       reference::unsupported,
       [](AttentionSeams& seams) { seams.compress = reference::compress; }},
      {"score", "reference", reference::unsupported, install_score},
      {"select", "reference", reference::unsupported, install_select},
      {"attend_cmp", "reference", reference::unsupported, install_attend_cmp},
      {"attend_sel", "reference", reference::unsupported, install_attend_sel},
      {"attend_sel",
       "masked",
       reference::unsupported,
       install_historic<historic::attend_sel_masked>},
      {"attend_sel",
       "packed",
       reference::unsupported,
       install_historic<historic::attend_sel_packed>},
      {"attend_sel",
       "gather",
       reference::unsupported,
       install_historic<historic::attend_sel_gather>},
      {"attend_win", "reference", reference::unsupported, install_attend_win},
      {"gate",
       "reference",
       reference::unsupported,
       [](AttentionSeams& seams) { seams.gate = reference::gate; }},
  };
  return list;
}

// Seams of a training step: made elsewhere (nsa/train, nsa/parallel), named here so that a route may name them.
const std::map<std::string, std::vector<std::string>>& training_seams() {
  static const std::map<std::string, std::vector<std::string>> list = {
      {"data", {"reference"}}, {"grad_sync", {"reference", "bf16"}}, {"optimizer", {"reference"}}};
  return list;
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(name, known);
  return "; known: " + join(known) + (nearest.empty() ? "" : "; did you mean " + nearest + "?");
}

void check_names(const std::map<std::string, std::string>& route) {
  const auto known = seam_implementations();
  std::vector<std::string> seams;
  for (const auto& [seam, names] : known) seams.push_back(seam);
  for (const auto& [seam, name] : route) {
    const auto found = known.find(seam);
    if (found == known.end()) {
      throw Error("there is no seam '" + seam + "'" + did_you_mean(seam, seams));
    }
    if (std::find(found->second.begin(), found->second.end(), name) == found->second.end()) {
      throw Error("seam " + seam + " has no implementation '" + name + "'" +
                  did_you_mean(name, found->second));
    }
  }
}

}  // namespace

std::string reference::unsupported(const ModelConfig& /*config*/) {
  return "";
}

std::map<std::string, std::vector<std::string>> seam_implementations() {
  auto result = training_seams();
  for (const auto& entry : implementations()) result[entry.seam].push_back(entry.name);
  return result;
}

AttentionSeams make_attention_seams(const ModelConfig& config,
                                    const std::map<std::string, std::string>& route) {
  check_names(route);
  AttentionSeams seams;
  for (const auto& entry : implementations()) {
    const auto asked = route.find(entry.seam);
    if (entry.name != (asked == route.end() ? "reference" : asked->second)) continue;
    const std::string missing = entry.unsupported(config);
    if (!missing.empty()) {
      throw Error("seam " + entry.seam + ": implementation " + entry.name + " cannot do " +
                  missing);
    }
    entry.install(seams);
  }
  return seams;
}

}  // namespace nsa
