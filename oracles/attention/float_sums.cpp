#include "oracles/attention/float_sums.h"

namespace oracles {

void draw_value_products(const KeyBank& bank,
                         const KeyList& keys,
                         const View& do_hV,
                         std::uint64_t draw,
                         std::vector<double>& dp_hK) {
  auto dp = dp_hK.begin();
  for (std::int64_t head = 0; head < do_hV.rows; ++head) {
    const double* const d_o = do_hV.data + head * do_hV.row_step;
    for (const KeyRange& piece : keys) {
      const View values = bank.values(piece);
      for (std::int64_t key = 0; key < values.rows; ++key, ++dp) {
        const double* const value = values.data + key * values.row_step;
        *dp = sum_in_float32(*dp, magnitudes_of_products(d_o, value, values.columns), draw);
      }
    }
  }
}

}  // namespace oracles
