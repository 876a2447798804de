// Packed documents that see each other. Seen: kernels whose window takes the lengths of the documents, while compressed tokens or
// selected blocks are those of the whole sequence; backward passes that leave short documents out.
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "harness/faults/attention/struck_rows.h"
#include "harness/faults/faults.h"

namespace harness {
namespace {

using torch::Tensor;

constexpr const char* kCompressed = "compressed";
constexpr const char* kSelected = "selected";
constexpr const char* kWindow = "window";

bool is_packed(const FaultContext& context) {
  const bool packed = context.session.the_case().scenario.training.data.packed > 1;
  if (!packed) {
    context.lacks("found one document in each sequence, wanted training.data.packed above 1");
  }
  return packed;
}

// ---- doc_leak_compressed ---------------------------------------------------------------------------

// Keys and values of the documents before this one, of one layer and sequence.
struct Before {
  std::vector<Tensor> keys;
  std::vector<Tensor> values;
};

// The same call with keys and values of the whole sequence so far; `before` gets the document's own.
Attended with_others(const Attended& at, Before& before) {
  if (at.seam.document == 0) before = {};
  before.keys.push_back(at.k_BGKD);
  before.values.push_back(at.v_BGKD);
  Attended all = at;
  all.k_BGKD = torch::cat(before.keys, 2);
  all.v_BGKD = torch::cat(before.values, 2);
  return all;
}

// [1,G,S,K] of all keys: every compressed token of other documents, and the own ones that the query may see.
Tensor compressed_of_all(const Attended& at, std::int64_t others) {
  const Tensor own_BGSK = right_keys(at);
  std::vector<std::int64_t> shape = own_BGSK.sizes().vec();
  shape.back() = others;
  return torch::cat({torch::ones(shape, own_BGSK.options()), own_BGSK}, -1);
}

// Tokens of the sequence up to the query, of blocks with these numbers or in the window.
Tensor tokens_of_all(const Attended& all, std::int64_t others) {
  const Tensor t_S1 = query_positions(all.seam, all.q_BHSD, all.q_BHSD.size(2)) + others;
  const Tensor u_K = key_positions(all);
  const Tensor past_SK = u_K.le(t_S1);
  if (all.branch == "sel") return keys_of_blocks(all).logical_and(past_SK);
  return past_SK.logical_and(u_K.gt(t_S1 - all.seam.config.w))
      .expand({all.k_BGKD.size(0), all.k_BGKD.size(1), -1, -1});
}

Tensor across(FaultContext& context, const Attended& at, const Tensor& right_BHSD, Before& before) {
  const Attended all = with_others(at, before);
  const std::int64_t others = all.k_BGKD.size(2) - at.k_BGKD.size(2);
  if (others == 0) return right_BHSD;
  const Tensor keys_BGSK =
      at.branch == "cmp" ? compressed_of_all(at, others) : tokens_of_all(all, others);
  context.fired(at.q_BHSD.size(2));
  return attend_over(all, keys_BGSK);
}

void install_leak(FaultContext& context) {
  if (!is_packed(context)) return;
  const std::string form = fault_form(context.request, {kCompressed, kSelected, kWindow});
  const std::string branch = form == kCompressed ? "cmp" : form == kSelected ? "sel" : "win";
  const auto of_layers = std::make_shared<std::map<int, Before>>();
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    change_attend(context,
                  seams,
                  branch,
                  [of_layers, &context](const Attended& at, const Tensor& right_BHSD) {
                    return across(context, at, right_BHSD, (*of_layers)[at.seam.layer]);
                  });
  });
}

// ---- varlen_tail -----------------------------------------------------------------------------------

// A backward that walks whole tiles never comes to documents that fill none.
void install_tail(FaultContext& context) {
  if (!is_packed(context)) return;
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    change_attend(context,
                  seams,
                  fault_form(context.request, {"win", "sel"}),
                  [&context](const Attended& at, const Tensor& right_BHSD) {
                    if (right_BHSD.size(2) >= at.seam.config.l) return right_BHSD;
                    context.fired(right_BHSD.size(2));
                    return right_BHSD.detach();
                  });
  });
}

}  // namespace

Faults faults_of_documents() {
  return {
      {"doc_leak_compressed",
       "a branch attends across the border of packed documents",
       {"layers", "rank", "step", "form"},
       install_leak,
       {kCompressed, kSelected, kWindow}},
      {"varlen_tail",
       "a branch passes no gradient back in documents that are shorter than a compression block",
       {"layers", "rank", "step", "form"},
       install_tail,
       {"win", "sel"}}};
}

}  // namespace harness
