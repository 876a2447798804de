#include "nsa/seams/cuda/documents.h"

#include "nsa/seams/joined_documents.h"

namespace nsa::cuda {
namespace {

using T = AttentionTrace;

// Tensors [1,X,T,.] with a row for each token.
constexpr std::array kOfTokens = {&T::q_BHSD,
                                  &T::k_raw_BGSD,
                                  &T::v_raw_BGSD,
                                  &T::k_sel_BGSD,
                                  &T::v_sel_BGSD,
                                  &T::k_win_BGSD,
                                  &T::v_win_BGSD,
                                  &T::p_grp_BGSN,
                                  &T::blocks_BGSn,
                                  &T::o_cmp_BHSD,
                                  &T::o_sel_BHSD,
                                  &T::o_win_BHSD,
                                  &T::gate};
constexpr std::array kCompressed = {&T::k_cmp_BGCD, &T::v_cmp_BGCD};

AttentionTrace trace_of_document(const AttentionTrace& row,
                                 const ModelConfig& config,
                                 std::int64_t begin,
                                 std::int64_t length) {
  AttentionTrace own;
  own.layer = row.layer;
  own.x_BSE = row.x_BSE.narrow(1, begin, length);
  own.y_BSE = row.y_BSE.narrow(1, begin, length);
  for (const auto member : kOfTokens) own.*member = (row.*member).narrow(2, begin, length);
  own.p_grp_BGSN = own.p_grp_BGSN.narrow(3, 0, config.block_count(length));
  for (const auto member : kCompressed) {
    own.*member = (row.*member).narrow(2, begin / config.d, config.compressed_len(length));
  }
  return own;
}

}  // namespace

void put_documents(const PackedDocuments& documents, kernels::Problem& problem) {
  problem.varlen = true;
  problem.batch = documents.count();
  problem.length = documents.longest();
  problem.tokens = documents.tokens();
}

AttentionTrace trace_of_batch(const AttentionTrace& row,
                              const PackedDocuments& documents,
                              const ModelConfig& config,
                              const Tensor& x_BSE) {
  AttentionTrace batch;
  batch.layer = row.layer;
  batch.x_BSE = x_BSE;
  batch.y_BSE = row.y_BSE.view(x_BSE.sizes());
  for (const auto member : kOfTokens) {
    const Tensor& x_1XTD = row.*member;
    if (!x_1XTD.defined()) continue;
    batch.*member = x_1XTD.squeeze(0).unflatten(1, x_BSE.sizes().slice(0, 2)).transpose(0, 1);
  }
  if (!row.p_grp_BGSN.defined()) return batch;  // nobody looks
  std::int64_t begin = 0;
  for (const auto& sequence : documents.lengths()) {
    for (const std::int64_t length : sequence) {
      batch.documents.push_back(trace_of_document(row, config, begin, length));
      begin += length;
    }
  }
  for (const auto member : kCompressed) {
    batch.*member = joined_documents(batch.documents, documents.lengths(), member, 2);
  }
  return batch;
}

}  // namespace nsa::cuda
