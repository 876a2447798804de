#include "oracles/training/accumulate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "oracles/expected.h"

namespace oracles {
namespace {

// Stands for NaN, which equals nothing: a sum with a NaN among its parts is NaN in any order.
constexpr double kNotANumber = std::numeric_limits<double>::max();

// A sum of the parts with weights, and of what was there before: every law is one.
struct Weighting {
  std::vector<double> parts;  // [world, accumulate]
  double before = 0;
};

using Part = Piece<AccumulateRecord>;
using Rule = WrongLaw<Part>;

// What a weighting gives, and the bounds.
Expected weighted(const Part& piece, const Weighting& w) {
  const AccumulateRecord& r = piece.record;
  Expected e{zeros({piece.count}), zeros({piece.count})};
  const auto add = [&](const Numbers& numbers, double weight) {
    if (weight == 0 || numbers.empty()) {
      return;
    }
    const std::vector<double> values = numbers.part(piece.begin, piece.count).values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      e.value.data[i] += weight * values[i];
      e.bound.data[i] += std::abs(weight * values[i]);
    }
  };
  for (std::size_t part = 0; part < r.parts.size(); ++part) {
    add(r.parts[part], w.parts[part]);
  }
  add(r.before, w.before);
  const double terms = static_cast<double>(r.parts.size()) + 3 + w.before;
  const double u = unit_roundoff(r.number) + unit_roundoff(Number::f64);
  // What travels as bfloat16 may be kept in float16, whose smallest numbers are far larger.
  const double least = std::max(smallest_normal(r.number), smallest_normal(r.result.number()));
  for (std::size_t i = 0; i < e.value.data.size(); ++i) {
    double& bound = e.bound.data[i];
    const bool none = std::isnan(e.value.data[i]);
    bound = none ? 0 : terms * u * bound + least;
    if (none) e.value.data[i] = kNotANumber;
  }
  return e;
}

using S = const AccumulateRecord&;

std::int64_t with_micros(S s) {
  return s.accumulate > 1 ? 1 : 0;
}
std::int64_t with_ranks(S s) {
  return s.world > 1 ? 1 : 0;
}
std::int64_t each_micro(S s) {
  return s.accumulate > 1 ? s.accumulate : 0;
}
std::int64_t each_rank(S s) {
  return s.world > 1 ? s.world : 0;
}
double real(std::int64_t count) {
  return static_cast<double>(count);
}

using Choices = std::int64_t (*)(S sizes);
using Weight = double (*)(S sizes, std::int64_t which, std::int64_t rank, std::int64_t micro);

// `choices`: how many micro-batches or ranks (`noun`) the law may be about; 1 where it is about none, 0 where it has no meaning.
// `weight`: of a part, as a share of the right one. `before`: of what was there before.
Rule sum_under(const Law& law,
               Choices choices,
               Weight weight,
               const std::string& noun = "",
               double before = 0) {
  const auto count = [=](S r) { return before != 0 && r.before.empty() ? 0 : choices(r); };
  return {law,
          [=](const Part& piece, std::size_t form) -> std::optional<Expected> {
            const AccumulateRecord& r = piece.record;
            const auto which = static_cast<std::int64_t>(form);
            if (which >= count(r)) return std::nullopt;
            Weighting w{{}, before};
            for (std::int64_t rank = 0; rank < r.world; ++rank) {
              for (std::int64_t micro = 0; micro < r.accumulate; ++micro) {
                w.parts.push_back(weight(r, which, rank, micro) / real(r.world * r.accumulate));
              }
            }
            return weighted(piece, w);
          },
          [=](const Part& piece) {
            std::vector<std::string> forms;
            for (std::int64_t which = 0; which < count(piece.record); ++which) {
              forms.push_back(noun.empty() ? "" : noun + " " + std::to_string(which));
            }
            return forms;
          }};
}

const std::vector<Rule>& rules() {
  using I = std::int64_t;
  static const std::vector<Rule> kRules{
      sum_under({"micros_summed", "micro-batches are added up, not averaged"},
                with_micros,
                [](S s, I, I, I) { return real(s.accumulate); }),
      sum_under({"ranks_summed", "ranks are added up, not averaged"},
                with_ranks,
                [](S s, I, I, I) { return real(s.world); }),
      sum_under(
          {"all_summed", "micro-batches and ranks are added up, not averaged"},
          [](S s) { return I{s.world > 1 && s.accumulate > 1}; },
          [](S s, I, I, I) { return real(s.world * s.accumulate); }),
      sum_under({"micros_averaged_twice", "divided by the number of micro-batches once more"},
                with_micros,
                [](S s, I, I, I) { return 1 / real(s.accumulate); }),
      sum_under({"ranks_averaged_twice", "divided by the number of ranks once more"},
                with_ranks,
                [](S s, I, I, I) { return 1 / real(s.world); }),
      sum_under(
          {"micro_alone", "one micro-batch in the place of the mean of all"},
          each_micro,
          [](S s, I which, I, I micro) { return micro == which ? real(s.accumulate) : 0; },
          "micro-batch"),
      sum_under(
          {"micro_alone_divided", "one micro-batch, divided by their number: the others are lost"},
          each_micro,
          [](S, I which, I, I micro) { return micro == which ? 1.0 : 0.0; },
          "micro-batch"),
      sum_under(
          {"micro_missing", "one micro-batch is lost, the others are divided by the number of all"},
          [](S s) { return s.accumulate > 2 ? s.accumulate : 0; },
          [](S, I which, I, I micro) { return micro == which ? 0.0 : 1.0; },
          "micro-batch"),
      sum_under(
          {"micro_twice", "one micro-batch is counted twice"},
          each_micro,
          [](S, I which, I, I micro) { return micro == which ? 2.0 : 1.0; },
          "micro-batch"),
      sum_under(
          {"rank_alone", "one rank's gradient in the place of the mean of all"},
          each_rank,
          [](S s, I which, I rank, I) { return rank == which ? real(s.world) : 0; },
          "rank"),
      sum_under(
          {"rank_alone_divided", "one rank's gradient, divided by the number of ranks"},
          each_rank,
          [](S, I which, I rank, I) { return rank == which ? 1.0 : 0.0; },
          "rank"),
      sum_under(
          {"rank_missing", "one rank is lost, the others are divided by the number of all"},
          [](S s) { return s.world > 2 ? s.world : 0; },
          [](S, I which, I rank, I) { return rank == which ? 0.0 : 1.0; },
          "rank"),
      sum_under(
          {"rank_twice", "one rank is counted twice"},
          each_rank,
          [](S, I which, I rank, I) { return rank == which ? 2.0 : 1.0; },
          "rank"),
      sum_under(
          {"micros_halved_in_turn", "a running mean (g + part) / 2: the last counts half"},
          [](S s) { return I{s.accumulate > 2}; },
          [](S s, I, I, I micro) {
            const I halvings = std::min(s.accumulate - micro, s.accumulate - 1);
            return real(s.accumulate) / std::exp2(real(halvings));
          }),
      sum_under(
          {"last_unreduced", "the last micro-batch of a rank is its own, the others are reduced"},
          [](S s) { return s.world > 1 && s.accumulate > 1 ? s.world : 0; },
          [](S s, I which, I rank, I micro) {
            const bool last = micro == s.accumulate - 1;
            return !last ? 1.0 : rank == which ? real(s.world) : 0.0;
          },
          "rank"),
      sum_under(
          {"previous_added", "what the gradient held before is not set to zero"},
          [](S) { return I{1}; },
          [](S, I, I, I) { return 1.0; },
          "",
          1),
      sum_under(
          {"previous_kept", "the gradient is what it held before"},
          [](S) { return I{1}; },
          [](S, I, I, I) { return 0.0; },
          "",
          1),
      sum_under(
          {"gradient_zero", "the gradient is 0"},
          [](S) { return I{1}; },
          [](S, I, I, I) { return 0.0; })};
  return kRules;
}

Weighting right_weighting(S sizes) {
  const auto parts = static_cast<std::size_t>(sizes.world * sizes.accumulate);
  return {std::vector<double>(parts, 1 / static_cast<double>(parts)), 0};
}

void validate(const AccumulateRecord& r) {
  const std::int64_t count = r.result.size();
  const auto require = [&](bool holds, const std::string& what) {
    if (!holds) {
      throw std::invalid_argument(r.name + ": " + what);
    }
  };
  require(r.world >= 1 && r.accumulate >= 1 &&
              static_cast<std::int64_t>(r.parts.size()) == r.world * r.accumulate,
          std::to_string(r.parts.size()) +
              " parts, wanted world * accumulate = " + std::to_string(r.world * r.accumulate));
  for (const Numbers& part : r.parts) {
    require(
        part.size() == count,
        "a part has " + std::to_string(part.size()) + " numbers, wanted " + std::to_string(count));
  }
  require(r.before.empty() || r.before.size() == count,
          "what was there before has " + std::to_string(r.before.size()) + " numbers, wanted " +
              std::to_string(count));
}

// In the type that it is kept in, or in the one that travels: float16 ends long before bfloat16 does.
bool may_overflow(const AccumulateRecord& r, std::int64_t at) {
  double absolute = 0;
  for (const Numbers& part : r.parts) absolute += std::abs(part[at]);
  return std::isinf(rounded(absolute, r.number)) ||
         std::isinf(rounded(absolute, r.result.number()));
}

// Elements from `begin` on. What overflowed, or is NaN, where that is right is told as what is right.
std::vector<double> found(const AccumulateRecord& r, const Expected& right, std::int64_t begin) {
  const auto count = static_cast<std::int64_t>(right.value.data.size());
  std::vector<double> values = r.result.part(begin, count).values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double wanted = right.value.data[i];
    if (wanted == kNotANumber) {
      if (std::isnan(values[i])) values[i] = wanted;
      continue;
    }
    const bool overflowed =
        !std::isfinite(values[i]) && may_overflow(r, begin + static_cast<std::int64_t>(i));
    if (overflowed && std::isfinite(wanted)) values[i] = wanted;
  }
  return values;
}

FoundParts parts_of(const std::vector<Part>& pieces, int threads) {
  const auto part = [&pieces](std::size_t i) {
    const Part& piece = pieces[i];
    Expected right = weighted(piece, right_weighting(piece.record));
    return FoundPart{found(piece.record, right, piece.begin), std::move(right)};
  };
  return {.count = pieces.size(), .part = part, .threads = threads};
}

}  // namespace

Misfit judge_accumulated(const AccumulateRecord& r, int threads) {
  validate(r);
  std::vector<Part> pieces;
  add_pieces(r, r.result.size(), pieces);
  return misfit_of(parts_of(pieces, threads));
}

std::span<const Law> accumulate_laws() {
  static const std::vector<Law> kLaws = laws_of(rules());
  return kLaws;
}

std::optional<std::vector<double>> accumulated_under(std::string_view law,
                                                     const AccumulateRecord& record,
                                                     std::int64_t which) {
  validate(record);
  const Part all{record, 0, record.result.size()};
  auto given = given_by(rules(), law, all, static_cast<std::size_t>(which));
  return given ? std::optional(std::move(given->value.data)) : std::nullopt;
}

Naming name_accumulated(std::span<const AccumulateRecord> records, int threads) {
  Misfit right;
  std::vector<Part> wrong;  // all of a record that is
  for (const AccumulateRecord& r : records) {
    const Misfit misfit = judge_accumulated(r, threads);
    right.add(misfit, right.judged);
    if (misfit.fits()) continue;
    add_pieces(r, r.result.size(), wrong);
  }
  Naming naming = name_parts(
      rules(), parts_of(wrong, threads), [&](std::size_t i) -> const Part& { return wrong[i]; });
  naming.right = right;
  merge_forms(naming.fitting);
  return naming;
}

}  // namespace oracles
