#include "nsa/model/packed_attention.h"

#include <algorithm>
#include <utility>

#include "nsa/seams/joined_documents.h"

namespace nsa {
namespace {

using torch::Tensor;

constexpr std::int64_t kSequences = 0;  // dimensions of a trace's tensors
constexpr std::int64_t kRows = 2;

// Every document has a score for as many blocks as the longest one has.
void widen_scores(std::vector<AttentionTrace>& documents) {
  std::int64_t most = 0;
  for (const AttentionTrace& document : documents) {
    if (!document.p_grp_BGSN.defined()) return;
    most = std::max(most, document.p_grp_BGSN.size(3));
  }
  for (AttentionTrace& document : documents) {
    document.p_grp_BGSN = filled_up(document.p_grp_BGSN, 3, most);
  }
}

AttentionTrace side_by_side(const Tensor& x_BSE,
                            const DocumentLengths& lengths,
                            std::vector<AttentionTrace> documents) {
  AttentionTrace all;
  all.documents = documents;
  widen_scores(documents);
  using T = AttentionTrace;
  all.layer = documents.front().layer;
  all.x_BSE = x_BSE;
  for (Tensor T::*const member : {&T::q_BHSD,
                                  &T::k_raw_BGSD,
                                  &T::v_raw_BGSD,
                                  &T::k_cmp_BGCD,
                                  &T::v_cmp_BGCD,
                                  &T::k_sel_BGSD,
                                  &T::v_sel_BGSD,
                                  &T::k_win_BGSD,
                                  &T::v_win_BGSD,
                                  &T::p_grp_BGSN,
                                  &T::blocks_BGSn,
                                  &T::o_cmp_BHSD,
                                  &T::o_sel_BHSD,
                                  &T::o_win_BHSD,
                                  &T::gate}) {
    all.*member = joined_documents(documents, lengths, member, kRows);
  }
  all.y_BSE = joined_documents(documents, lengths, &T::y_BSE, 1);
  return all;
}

}  // namespace

AttentionTrace attend_documents(const Tensor& x_BSE,
                                const PackedDocuments& packed,
                                const AttendDocument& attend) {
  packed.require_of(x_BSE);
  const DocumentLengths& lengths = packed.lengths();
  std::vector<AttentionTrace> documents;
  const std::vector<Tensor> sequences = x_BSE.split(1, kSequences);
  for (std::size_t b = 0; b < sequences.size(); ++b) {
    const std::vector<Tensor> parts = sequences[b].split_with_sizes(lengths[b], 1);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      documents.push_back(attend(parts[i], static_cast<std::int64_t>(i)));
    }
  }
  return side_by_side(x_BSE, lengths, std::move(documents));
}

Tensor labels_of_documents(const Tensor& tokens_BS, const DocumentLengths& lengths) {
  constexpr std::int64_t kNotScored = -100;
  if (lengths.empty()) return tokens_BS;
  Tensor labels_BS = tokens_BS.clone();
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    std::int64_t first = 0;
    for (const std::int64_t length : lengths[b]) {
      if (first > 0) labels_BS[static_cast<std::int64_t>(b)][first] = kNotScored;
      first += length;
    }
  }
  return labels_BS;
}

}  // namespace nsa
