#include <algorithm>
#include <cmath>

#include "nsa/seams/historic/historic.h"
#include "nsa/seams/historic/selected_keys.h"
#include "nsa/seams/reference/masked_attention.h"

namespace nsa::historic {
namespace {

using reference::wide;

// Rows of a bucket, and the keys of each: every place holds one.
struct Bucket {
  Tensor rows_T;
  Tensor index_TK;
};

// One bucket for each number of keys, rows ascending; cut where it would gather more than `most_keys` keys at once.
std::vector<Bucket> buckets_of(const SelectedKeys& keys, std::int64_t most_keys) {
  const Tensor count_R = keys.valid_RK.sum(1);
  const Tensor counts = std::get<0>(torch::_unique2(count_R, /*sorted=*/true)).to(torch::kCPU);
  std::vector<Bucket> buckets;
  for (std::int64_t i = 0; i < counts.size(0); ++i) {
    const auto count = counts[i].item<std::int64_t>();
    const Tensor all_T = count_R.eq(count).nonzero().squeeze(1);
    for (const Tensor& rows_T :
         all_T.split(std::max<std::int64_t>(most_keys / std::max<std::int64_t>(count, 1), 1))) {
      // Each row has `count` valid places, so that the flat list of them falls into rows of that length.
      const Tensor index_TK = keys.index_RK.index_select(0, rows_T)
                                  .masked_select(keys.valid_RK.index_select(0, rows_T))
                                  .view({rows_T.size(0), count});
      buckets.push_back({rows_T, index_TK});
    }
  }
  return buckets;
}

// softmax(q.k / sqrt(d_k)) v over all keys given (arXiv 2502.11089 Eq. 2); zeros where there are none.
Tensor attend_all(const Tensor& q_Th1D, const Tensor& k_TKD, const Tensor& v_TKD) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q_Th1D.size(3)));
  const Tensor q_ThD = wide(q_Th1D).squeeze(2) * scale;
  const Tensor p_ThK = torch::bmm(q_ThD, wide(k_TKD).transpose(1, 2)).softmax(-1);
  return torch::bmm(p_ThK, wide(v_TKD)).to(q_Th1D.scalar_type()).unsqueeze(2);
}

}  // namespace

Tensor attend_sel_packed(const SeamContext& context,
                         const Tensor& q_BHSD,
                         const Tensor& k_BGSD,
                         const Tensor& v_BGSD,
                         const Tensor& blocks_BGSn,
                         std::int64_t chunk_bytes) {
  const auto groups = k_BGSD.size(1);
  // Widened before rows are gathered: the gradients of a key that many rows hold are added in float32.
  const Tensor wide_k_BGSD = wide(k_BGSD);
  const Tensor wide_v_BGSD = wide(v_BGSD);
  const SelectedKeys keys = selected_keys(context, blocks_BGSn, k_BGSD.size(2));
  const Tensor q_Rh1D = rows_of(q_BHSD, groups);
  const auto key_bytes =
      (k_BGSD.size(3) + v_BGSD.size(3)) * static_cast<std::int64_t>(sizeof(double));
  std::vector<Tensor> order;
  std::vector<Tensor> outputs;
  for (const Bucket& bucket : buckets_of(keys, chunk_bytes / key_bytes)) {
    if (context.reads != nullptr) context.reads->sel += bucket.index_TK.numel();
    order.push_back(bucket.rows_T);
    outputs.push_back(attend_all(q_Rh1D.index_select(0, bucket.rows_T),
                                 gathered(wide_k_BGSD, bucket.index_TK),
                                 gathered(wide_v_BGSD, bucket.index_TK)));
  }
  const Tensor place_R = torch::cat(order).argsort();
  const Tensor o_BHSD =
      heads_of(torch::cat(outputs).index_select(0, place_R), q_BHSD.size(0), groups);
  context.routes.ran("attend_sel", context.layer, "packed", o_BHSD);
  return o_BHSD;
}

}  // namespace nsa::historic
