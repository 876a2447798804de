#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nsa/base/error.h"
#include "nsa/base/text.h"
#include "nsa/seams/automatic.h"
#include "nsa/seams/by_hand/by_hand.h"
#include "nsa/seams/cuda/cuda.h"
#include "nsa/seams/cuda/norm.h"
#include "nsa/seams/flash/flash.h"
#include "nsa/seams/historic/historic.h"
#include "nsa/seams/implementation.h"
#include "nsa/seams/mlp.h"
#include "nsa/seams/norm.h"
#include "nsa/seams/reference/reference.h"
#include "nsa/seams/refused.h"
#include "nsa/seams/sdpa/sdpa.h"
#include "nsa/seams/seams.h"
#include "nsa/seams/sequential/sequential.h"

namespace nsa {

namespace {

std::string can_do_all(const ModelConfig& /*config*/, const Surroundings* /*where*/) {
  return "";
}

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

// One of the functions that stand behind attend_cmp or attend_win, with what they have by default.
template <auto attend>
Tensor attended(const SeamContext& context,
                const Tensor& q_BHSD,
                const Tensor& k_BGKD,
                const Tensor& v_BGKD) {
  return attend(context, q_BHSD, k_BGKD, v_BGKD, reference::kChunkBytes);
}

template <auto attend>
void install_attend_cmp(AttentionSeams& seams) {
  seams.attend_cmp = attend;
}

template <auto attend>
void install_attend_win(AttentionSeams& seams) {
  seams.attend_win = attend;
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

// The back ends that LibTorch carries; the first of a seam is its default.
std::vector<Implementation> own_rows() {
  return {
      {"attention",
       "reference",
       can_do_all,
       [](AttentionSeams& seams) { seams.attention = reference::attention; }},
      {"attention",
       "sequential",
       can_do_all,
       [](AttentionSeams& seams) { seams.attention = sequential::attention; }},
      {"project",
       "reference",
       can_do_all,
       [](AttentionSeams& seams) { seams.project = reference::project; }},
      {"rope", "reference", can_do_all, install_rope},
      {"compress",
       "reference",
       can_do_all,
       [](AttentionSeams& seams) { seams.compress = reference::compress; }},
      {"score", "reference", can_do_all, install_score},
      {"select", "reference", can_do_all, install_select},
      {"attend_cmp", "reference", can_do_all, install_attend_cmp<attended<reference::attend_cmp>>},
      {"attend_cmp", "sdpa", can_do_all, install_attend_cmp<attended<sdpa::attend_cmp>>},
      {"attend_cmp", "fa2", flash::unsupported, install_attend_cmp<flash::attend_cmp>},
      {"attend_cmp",
       "fa2_varlen",
       flash::unsupported,
       install_attend_cmp<flash::attend_cmp_varlen>},
      {"attend_sel", "reference", can_do_all, install_attend_sel},
      {"attend_sel", "masked", can_do_all, install_historic<historic::attend_sel_masked>},
      {"attend_sel", "packed", can_do_all, install_historic<historic::attend_sel_packed>},
      {"attend_sel", "gather", can_do_all, install_historic<historic::attend_sel_gather>},
      {"attend_sel", "fa2", flash::unsupported_sel, nullptr},
      {"attend_sel", "fa2_varlen", flash::unsupported_sel, nullptr},
      {"attend_win", "reference", can_do_all, install_attend_win<attended<reference::attend_win>>},
      {"attend_win", "sdpa", can_do_all, install_attend_win<attended<sdpa::attend_win>>},
      {"attend_win", "fa2", flash::unsupported, install_attend_win<flash::attend_win>},
      {"attend_win",
       "fa2_varlen",
       flash::unsupported,
       install_attend_win<flash::attend_win_varlen>},
      {"gate",
       "reference",
       can_do_all,
       [](AttentionSeams& seams) { seams.gate = reference::gate; }},
  };
}

// Every back end of every seam.
const std::vector<Implementation>& implementations() {
  static const std::vector<Implementation> list = [] {
    std::vector<Implementation> rows = own_rows();
    for (const auto& more : {cuda::implementations(), by_hand::implementations()}) {
      rows.insert(rows.end(), more.begin(), more.end());
    }
    return rows;
  }();
  return list;
}

// Seams outside the attention layer: made elsewhere (norm.h, mlp.h, nsa/train, nsa/parallel), named here so that a route may name
// them.
const std::map<std::string, std::vector<std::string>>& other_seams() {
  static const std::map<std::string, std::vector<std::string>> list = {
      {"norm", norm_implementations()},
      {"mlp", mlp_implementations()},
      {"data", {"reference"}},
      {"grad_sync", {"reference", "bf16", by_hand::kName}},
      {"transport", {"reference", by_hand::kName}},
      {"optimizer", {"reference", "fused"}}};
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
    const bool is_there =
        std::find(found->second.begin(), found->second.end(), name) != found->second.end();
    if (!is_there || name == kAutomatic) {  // which is resolved before anybody makes a seam
      throw Error("seam " + seam + " has no implementation '" + name + "'" +
                  did_you_mean(name, found->second));
    }
  }
}

// The implementation of each seam of the attention layer that a route asks for. Throws: Error on unknown names.
std::vector<const Implementation*> asked_for(const std::map<std::string, std::string>& route) {
  check_names(route);
  std::vector<const Implementation*> asked;
  for (const auto& entry : implementations()) {
    const auto named = route.find(entry.seam);
    if (entry.name == (named == route.end() ? "reference" : named->second)) asked.push_back(&entry);
  }
  return asked;
}

void refuse_unsupported(const Implementation& entry,
                        const ModelConfig& config,
                        const Surroundings* where) {
  const std::string missing = entry.unsupported(config, where);
  if (!missing.empty()) throw Refused(entry.seam, entry.name, missing);
}

}  // namespace

std::map<std::string, std::vector<std::string>> seam_implementations() {
  auto result = other_seams();
  for (const auto& entry : implementations()) result[entry.seam].push_back(entry.name);
  for (auto& [seam, names] : result) {
    if (has_automatic(seam)) names.emplace_back(kAutomatic);
  }
  return result;
}

std::string unsupported(const std::string& seam,
                        const std::string& implementation,
                        const ModelConfig& config,
                        const Surroundings& where) {
  check_names({{seam, implementation}});
  if (seam == "norm" && implementation == "cuda") return cuda::unsupported_norm(config.dim, where);
  for (const auto& entry : implementations()) {
    if (entry.seam == seam && entry.name == implementation) {
      return entry.unsupported(config, &where);
    }
  }
  return "";  // a seam outside of the attention layer
}

void check_route(const ModelConfig& config,
                 const std::map<std::string, std::string>& route,
                 const Surroundings& where) {
  check_names(route);
  for (const auto& [seam, name] : route) {
    const std::string missing = unsupported(seam, name, config, where);
    if (!missing.empty()) throw Refused(seam, name, missing);
  }
}

AttentionSeams make_attention_seams(const ModelConfig& config,
                                    const std::map<std::string, std::string>& route) {
  AttentionSeams seams;
  for (const Implementation* asked : asked_for(route)) {
    refuse_unsupported(*asked, config, nullptr);
    asked->install(seams);
  }
  return seams;
}

}  // namespace nsa
