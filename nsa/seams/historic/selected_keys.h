// Which keys a list of blocks stands for, and the rows of K and V at given positions: shared by the forms that gather.
// Letters as in historic.h; R rows, a query of one pair of batch and group each; K = n * l_sel places.
#pragma once

#include "nsa/seams/seams.h"
#include "nsa/torch.h"

namespace nsa::historic {

// One row for each pair and query: row r is of pair r / S.
struct SelectedKeys {
  torch::Tensor index_RK;  // of the key in K and V flattened to [P*keys, D]; 0 where there is none
  torch::Tensor valid_RK;
};

// `keys` is the number of keys of a pair.
[[nodiscard]] SelectedKeys selected_keys(const SeamContext& context,
                                         const torch::Tensor& blocks_BGSn,
                                         std::int64_t keys);

// [P,h,S,D] -> [R,h,1,D], and back.
[[nodiscard]] torch::Tensor rows_of(const torch::Tensor& q_BHSD, std::int64_t groups);
[[nodiscard]] torch::Tensor heads_of(const torch::Tensor& o_Rh1D,
                                     std::int64_t batch,
                                     std::int64_t groups);

// x [B,G,S,D] at index [R,K] -> [R,K,D]
[[nodiscard]] torch::Tensor gathered(const torch::Tensor& x_BGSD, const torch::Tensor& index_RK);

}  // namespace nsa::historic
