#include "oracles/training/dropout.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "oracles/counter_random.h"

namespace oracles {
namespace {

using In = const DropoutInputs&;
using Rule = WrongLaw<DropoutInputs>;

Expected times(In in, const Tensor& factors) {
  require_shape(in.branch, factors.shape, "branch");
  Expected e{in.branch, zeros(in.branch.shape)};
  for (std::size_t i = 0; i < factors.data.size(); ++i) {
    e.value.data[i] *= factors.data[i];
    e.bound.data[i] = (2 * in.rounding.summed + in.rounding.stored) * std::abs(e.value.data[i]) +
                      in.rounding.flushed;
  }
  return e;
}

Tensor factors_at(In in, const DropoutPlace& place) {
  Tensor all = dropout_factors(in.data, place, in.branch.shape.at(1), in.p);
  if (in.rows.empty()) return all;
  const std::int64_t width = all.shape.at(1);
  Tensor some = zeros({static_cast<std::int64_t>(in.rows.size()), width});
  for (std::size_t i = 0; i < in.rows.size(); ++i) {
    const auto from = all.data.begin() + static_cast<std::ptrdiff_t>(in.rows[i] * width);
    std::copy_n(from, width, some.data.begin() + static_cast<std::ptrdiff_t>(i) * width);
  }
  return some;
}

Expected scaled(In in, double scale) {
  Tensor factors = factors_at(in, in.place);
  for (double& factor : factors.data) factor *= scale;
  return times(in, factors);
}

std::vector<Rule> place_rules() {
  return {{{"dropout_of_rank", "the mask of another rank"},
           [](In in, std::size_t choice) {
             DropoutPlace place = in.place;
             place.batch.rank = static_cast<std::int64_t>(choice);
             if (place.batch.rank >= in.place.batch.rank) ++place.batch.rank;
             return times(in, factors_at(in, place));
           },
           [](In in) {
             std::vector<std::string> names;
             for (std::int64_t rank = 0; rank < in.data.world; ++rank) {
               if (rank != in.place.batch.rank) names.push_back("rank " + std::to_string(rank));
             }
             return names;
           }},
          {{"dropout_of_next_micro_batch", "the mask of the next micro-batch"},
           [](In in, std::size_t) {
             DropoutPlace place = in.place;
             ++place.batch.micro;
             return times(in, factors_at(in, place));
           }},
          {{"dropout_of_other_site", "the mask of the block's other half"}, [](In in, std::size_t) {
             DropoutPlace place = in.place;
             place.site = 1 - place.site;
             return times(in, factors_at(in, place));
           }}};
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> kRules =
      joined({place_rules(),
              {{{"dropout_not_scaled", "kept numbers are not divided by 1 - p"},
                [](In in, std::size_t) { return scaled(in, 1 - in.p); }},
               {{"dropout_scaled_twice", "kept numbers are divided by 1 - p twice"},
                [](In in, std::size_t) { return scaled(in, 1 / (1 - in.p)); }},
               {{"dropout_missing", "nothing is dropped"},
                [](In in, std::size_t) { return times(in, filled<double>(in.branch.shape, 1)); }},
               {{"dropout_missing_scaled", "nothing is dropped, and all is divided by 1 - p"},
                [](In in, std::size_t) {
                  return times(in, filled<double>(in.branch.shape, 1 / (1 - in.p)));
                }},
               {{"dropout_zero", "zeros"},
                [](In in, std::size_t) { return times(in, zeros(in.branch.shape)); }}}});
  return kRules;
}

constexpr LastLaws kLast{{"dropout_factor", "the branch times a factor"},
                         {"dropout_kept_narrow", "the branch has fewer digits"}};

}  // namespace

Tensor dropout_factors(const DataConfig& config,
                       const DropoutPlace& place,
                       std::int64_t width,
                       double p) {
  const std::int64_t length = config.seq_len;
  Tensor factors = zeros({config.batch_size * length, width});
  constexpr std::uint64_t kOfDropout = std::uint64_t{1} << 63U;
  for (std::int64_t row = 0; row < config.batch_size; ++row) {
    const std::uint64_t sequence =
        draw(config.seed ^ kOfDropout, sequence_number(config, place.batch, row));
    const std::uint64_t key =
        draw(sequence, static_cast<std::uint64_t>(2 * place.layer + place.site));
    for (std::int64_t i = 0; i < length * width; ++i) {
      const bool is_kept = unit(draw(key, static_cast<std::uint64_t>(i))) >= p;
      factors.data[static_cast<std::size_t>(row * length * width + i)] = is_kept ? 1 / (1 - p) : 0;
    }
  }
  return factors;
}

Expected expected_dropout(In in) {
  return times(in, factors_at(in, in.place));
}

const StageLibrary<DropoutInputs>& dropout_laws() {
  static const StageLibrary<DropoutInputs> kLibrary(rules(), kLast, &expected_dropout);
  return kLibrary;
}

}  // namespace oracles
