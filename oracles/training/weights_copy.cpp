#include "oracles/training/weights_copy.h"

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "oracles/expected.h"

namespace oracles {
namespace {

struct Place {
  double master_before;
  double master_after;
  double weight_before;
  double found;
  Number number;
};

// The type's neighbours of a value, towards zero and away from it; the value itself where it is one
// of the type. REQUIRES: finite.
double towards_zero(double value, Number number) {
  const double step = spacing(value, number);
  return std::trunc(value / step) * step;
}
double away_from_zero(double value, Number number) {
  const double low = towards_zero(value, number);
  return low == value ? value : low + std::copysign(spacing(value, number), value);
}

double half_away(double value, Number number) {
  const double low = towards_zero(value, number);
  const double high = away_from_zero(value, number);
  return std::abs(value - low) < std::abs(high - value) ? low : high;
}

void validate(const WeightRecord& r) {
  const std::int64_t count = r.master_after.size();
  for (const auto& [name, size] : {std::pair("master_before", r.master_before.size()),
                                   std::pair("weight_before", r.weight_before.size()),
                                   std::pair("weight_after", r.weight_after.size())}) {
    if (size != count) {
      throw std::invalid_argument(std::string(name) + " has " + std::to_string(size) +
                                  " numbers, wanted " + std::to_string(count));
    }
  }
}

using Part = Piece<WeightRecord>;
using Rule = WrongLaw<Part>;

Rule of_each(const Law& law, double (*weight)(const Place& p)) {
  return {law, [weight](const Part& piece, std::size_t) {
            const WeightRecord& r = piece.record;
            Expected e{zeros({piece.count}), zeros({piece.count})};
            for (std::int64_t k = 0; k < piece.count; ++k) {
              const std::int64_t i = piece.begin + k;
              e.value.data[k] = weight({r.master_before[i],
                                        r.master_after[i],
                                        r.weight_before[i],
                                        r.weight_after[i],
                                        r.weight_after.number()});
            }
            return e;
          }};
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> kRules{
      of_each({"weight_not_renewed", "the weight stays what it was before the step"},
              [](const Place& p) { return p.weight_before; }),
      of_each({"weight_truncated", "digits are cut off in place of rounded"},
              [](const Place& p) { return towards_zero(p.master_after, p.number); }),
      of_each({"weight_rounded_away", "rounded away from zero"},
              [](const Place& p) { return away_from_zero(p.master_after, p.number); }),
      of_each({"weight_half_away", "halves are rounded away from zero, not to even"},
              [](const Place& p) { return half_away(p.master_after, p.number); }),
      of_each({"weight_moved_by_itself",
               "the master's move is added to the weight, and that is rounded"},
              [](const Place& p) {
                return rounded(p.weight_before + (p.master_after - p.master_before), p.number);
              }),
      of_each({"weight_rounded_twice", "rounded to the other narrow type first"},
              [](const Place& p) {
                const Number other = p.number == Number::bf16 ? Number::f16 : Number::bf16;
                return rounded(rounded(p.master_after, other), p.number);
              }),
      of_each({"weight_rounded_at_random",
               "one of the two neighbours, not always the nearest",
               /*fitted=*/false,
               /*last=*/true},
              [](const Place& p) {
                const double low = towards_zero(p.master_after, p.number);
                const double high = away_from_zero(p.master_after, p.number);
                if (p.found == low || p.found == high) return p.found;
                return rounded(p.master_after, p.number) == low ? high : low;
              })};
  return kRules;
}

}  // namespace

std::span<const Law> weight_laws() {
  static const std::vector<Law> kLaws = laws_of(rules());
  return kLaws;
}

double weight_under(std::string_view law,
                    double master_before,
                    double master_after,
                    double weight_before,
                    Number number) {
  constexpr std::uint64_t kNothing = 0x7fff7fff7fff7fff;  // a NaN of every type
  const auto one = [](const double& value) { return Numbers::of(std::span(&value, 1)); };
  const WeightRecord record{
      one(master_before), one(master_after), one(weight_before), {&kNothing, 1, number}};
  return number_given_by(rules(), law, {record, 0, 1}).value();
}

Naming name_weights(std::span<const WeightRecord> records, int threads) {
  std::vector<Part> pieces;
  for (const WeightRecord& record : records) {
    validate(record);
    add_pieces(record, record.master_after.size(), pieces);
  }
  const auto part = [&](std::size_t i) {
    const Part& piece = pieces[i];
    const WeightRecord& r = piece.record;
    Expected right{tensor_of({r.master_after.part(piece.begin, piece.count), 1, piece.count}),
                   zeros({1, piece.count})};
    for (double& weight : right.value.data) weight = rounded(weight, r.weight_after.number());
    return FoundPart{r.weight_after.part(piece.begin, piece.count).values(), std::move(right)};
  };
  return name_parts(rules(),
                    {.count = pieces.size(), .part = part, .threads = threads},
                    [&](std::size_t i) -> const Part& { return pieces[i]; });
}

}  // namespace oracles
