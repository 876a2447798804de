#include "oracles/training/initial_laws.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <numbers>
#include <optional>
#include <tuple>

#include "oracles/counter_random.h"

namespace oracles {
namespace {

using Kind = InitialLaw::Kind;

constexpr Law kNotFinite{"init_not_finite", "not a number, or infinite"};
constexpr Law kZero{"init_zero", "all zeros"};
constexpr Law kConstant{"init_constant", "one number everywhere"};
constexpr Law kRandom{"init_random", "random in the place of a constant"};
constexpr Law kPartZero{"init_part_zero", "a part is zero, the rest follows the law"};
constexpr Law kNarrow{"init_drawn_narrow", "the digits of bfloat16 only"};
constexpr Law kGainMissing{"init_gain_missing", "Xavier's law without the gain of 0.1"};
constexpr Law kNormal{"init_normal", "normal in the place of uniform, of the right scale"};
constexpr Law kUniform{"init_uniform", "uniform in the place of normal, of the right scale"};
constexpr Law kNormalSmall{"init_normal_0.02", "normal with standard deviation 0.02"};
constexpr Law kNormalOne{"init_normal_1", "normal with standard deviation 1"};
constexpr Law kXavierUniform{"init_xavier_uniform", "uniform in +-sqrt(6 / (inputs + outputs))"};
constexpr Law kXavierNormal{"init_xavier_normal", "normal, sqrt(2 / (inputs + outputs))"};
constexpr Law kKaimingUniform{"init_kaiming_uniform", "uniform in +-sqrt(6 / inputs)"};
constexpr Law kKaimingNormal{"init_kaiming_normal", "normal, sqrt(2 / inputs)"};
constexpr Law kLecunUniform{"init_lecun_uniform", "uniform in +-sqrt(3 / inputs)"};
constexpr Law kOfOutputs{"init_of_outputs", "uniform in +-1/sqrt(outputs)"};
constexpr Law kPositive{"init_positive", "the right numbers without their sign"};
constexpr Law kFactor{"init_factor", "the right distribution times a factor", /*fitted=*/true};
constexpr Law kUnknown{"init_unknown", "another distribution", /*fitted=*/true};
constexpr Law kEqual{"init_equal_tensors", "the numbers of another tensor"};
constexpr Law kSameDraws{"init_same_draws",
                         "the random numbers of another tensor, at another scale"};
constexpr Law kEqualRows{"init_equal_rows", "a row that is another row too"};

std::string text_of(double value) {
  char text[32];
  const auto done = std::to_chars(text, text + sizeof(text), value, std::chars_format::general, 3);
  return {text, done.ptr};
}

struct Other {
  Law law;
  Distribution distribution;
};

// Laws of another distribution, the more exact first.
std::vector<Other> other_distributions(const InitialSample& s) {
  const bool is_normal = s.law.kind == Kind::normal;
  const double deviation = is_normal ? s.law.size : s.law.size / std::sqrt(3.0);
  std::vector<Other> others{{is_normal ? kUniform : kNormal,
                             {{is_normal ? Kind::uniform : Kind::normal,
                               is_normal ? std::sqrt(3.0) * s.law.size : deviation}}},
                            {kNormalSmall, {{Kind::normal, 0.02}}},
                            {kNormalOne, {{Kind::normal, 1}}}};
  if (!is_normal) {
    others.push_back({kPositive, {s.law, true}});
  }
  if (s.shape.size() == 2 && !is_normal) {
    const auto outputs = static_cast<double>(s.shape[0]);
    const auto inputs = static_cast<double>(s.shape[1]);
    const double xavier = std::sqrt(6 / (inputs + outputs));
    // The one law that is Xavier's itself, with a gain.
    const bool gained = std::abs(s.law.size - 0.1 * xavier) < 1e-9;
    for (const auto& [law, kind, size] :
         {std::tuple(gained ? kGainMissing : kXavierUniform, Kind::uniform, xavier),
          std::tuple(kXavierNormal, Kind::normal, std::sqrt(2 / (inputs + outputs))),
          std::tuple(kKaimingUniform, Kind::uniform, std::sqrt(6 / inputs)),
          std::tuple(kKaimingNormal, Kind::normal, std::sqrt(2 / inputs)),
          std::tuple(kLecunUniform, Kind::uniform, std::sqrt(3 / inputs)),
          std::tuple(kOfOutputs, Kind::uniform, 1 / std::sqrt(outputs))}) {
      others.push_back({law, {{kind, size}}});
    }
  }
  return others;
}

bool some_follow(const std::vector<double>& some,
                 const Distribution& distribution,
                 Number number,
                 double alarm) {
  const Places places(distribution, number);
  Moments moments;
  for (const double x : some) {
    moments.add(x, places);
  }
  return is_possible(moments, distribution, places, number, alarm);
}

InitialWrong told_constant(const InitialSample& s) {
  const Moments& m = s.moments;
  if (m.lowest == m.largest) {
    return m.largest == 0 ? InitialWrong{s.name, kZero, {}}
                          : InitialWrong{s.name, kConstant, text_of(m.largest)};
  }
  const double deviation = std::sqrt(m.squares / static_cast<double>(m.count));
  return {s.name, kRandom, "root of the mean square " + text_of(deviation)};
}

// The right law times a factor: by the largest number where the law has a largest one, else by the
// mean square.
InitialLaw scaled_law(const InitialSample& s) {
  const Moments& m = s.moments;
  if (s.law.kind == Kind::uniform) {
    return {Kind::uniform, std::max(m.largest, -m.lowest)};
  }
  return {Kind::normal, std::sqrt(m.squares / static_cast<double>(m.count))};
}

// Logarithm of the probability density of the sample; a number beyond the law's end is passed over,
// since the law was found possible.
double likelihood(const std::vector<double>& some, const Distribution& d) {
  double squares = 0;
  for (const double x : some) {
    squares += x * x;
  }
  const auto n = static_cast<double>(some.size());
  if (d.law.kind == Kind::uniform) {
    return -n * std::log((d.positive ? 1 : 2) * d.law.size);
  }
  return -n * std::log(d.law.size * std::sqrt(2 * std::numbers::pi)) -
         squares / (2 * d.law.size * d.law.size);
}

// The likeliest of the laws that may have given the sample; those that are the same law for this shape
// are named together.
std::optional<InitialWrong> likeliest(const InitialSample& s) {
  // To name is no accusation: a law that fits once in 1000 times only is not named.
  constexpr double kAlarm = 1e-3;
  std::optional<InitialWrong> best;
  double highest = 0;
  for (const Other& other : other_distributions(s)) {
    if (!some_follow(s.some, other.distribution, s.number, kAlarm)) {
      continue;
    }
    const double own = likelihood(s.some, other.distribution);
    if (best && std::abs(own - highest) <= 1e-9 * std::abs(highest)) {
      best->detail = "or " + std::string(other.law.name);
    } else if (!best || own > highest) {
      best = {s.name, other.law, {}};
      highest = own;
    }
  }
  return best;
}

}  // namespace

std::span<const Law> initial_laws() {
  static constexpr Law kAll[] = {
      kNotFinite,    kZero,           kConstant,      kRandom,       kPartZero,  kNarrow,
      kGainMissing,  kNormal,         kUniform,       kNormalSmall,  kNormalOne, kXavierUniform,
      kXavierNormal, kKaimingUniform, kKaimingNormal, kLecunUniform, kOfOutputs, kPositive,
      kFactor,       kUnknown,        kEqual,         kSameDraws,    kEqualRows};
  return kAll;
}

InitialWrong told(const InitialSample& s, double alarm) {
  const Moments& m = s.moments;
  if (m.not_finite > 0) {
    return {s.name, kNotFinite, std::to_string(m.not_finite) + " of " + std::to_string(m.count)};
  }
  if (s.law.kind == Kind::constant || m.lowest == m.largest) {
    return told_constant(s);
  }
  if (m.zeros * 1000 > m.count) {
    std::vector<double> rest = s.some;
    std::erase(rest, 0.0);
    if (!rest.empty() && some_follow(rest, {s.law}, s.number, alarm)) {
      const double share = static_cast<double>(m.zeros) / static_cast<double>(m.count);
      return {s.name, kPartZero, "share " + text_of(share)};
    }
  }
  if (some_follow(s.some, {s.law}, s.number, alarm) && m.narrow) {
    return {s.name, kNarrow, {}};
  }
  if (const auto other = likeliest(s)) {
    return *other;
  }
  const InitialLaw law = scaled_law(s);
  if (some_follow(s.some, {law}, s.number, alarm)) {
    return {s.name, kFactor, "factor " + text_of(law.size / s.law.size)};
  }
  return {s.name, kUnknown, {}};
}

namespace {

std::uint64_t hash_of(const unsigned char* bytes, std::int64_t count) {
  std::uint64_t hash = static_cast<std::uint64_t>(count);
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i, sizeof(word));
    hash = mix(hash ^ word);
  }
  for (; i < count; ++i) {
    hash = mix(hash ^ bytes[i]);
  }
  return hash;
}

struct Row {
  std::size_t tensor;
  std::int64_t row;
};

// Binary digits in which two random numbers of a type differ at least, on average: float32 draws have
// 24, the narrow types keep 8 or 11, one of which says little near the largest magnitude.
double digits_apart(Number number) {
  return number == Number::bf16 ? 7 : number == Number::f16 ? 10 : 20;
}

bool is_random(const InitialLaw& law) {
  return law.kind != Kind::constant;
}

std::int64_t width_of(const InitialRecord& r) {
  return r.shape.back();
}

// Rows so long that two of all are equal by chance once in 2^40 models.
bool has_telling_rows(const InitialRecord& r, double rows) {
  return r.shape.size() == 2 && static_cast<double>(width_of(r)) * digits_apart(r.values.number()) >
                                    2 * std::log2(rows) + 40;
}

class Repeats {
 public:
  Repeats(std::span<const InitialRecord> records, const std::vector<InitialLaw>& laws)
      : records_(records), laws_(laws) {
    for (const InitialRecord& record : records) {
      rows_ += record.shape.size() == 2 ? static_cast<double>(record.shape[0]) : 1;
    }
  }

  std::vector<InitialWrong> all() {
    std::vector<InitialWrong> wrong;
    for (std::size_t i = 0; i < records_.size(); ++i) {
      if (!is_random(laws_[i]) || is_constant(records_[i])) {
        continue;
      }
      if (auto found = of_tensor(i)) {
        wrong.push_back(std::move(*found));
      } else if (auto row = of_rows(i)) {
        wrong.push_back(std::move(*row));
      }
    }
    return wrong;
  }

 private:
  static constexpr std::int64_t kPrefix = 32;  // numbers that tell draws apart

  static bool is_constant(const InitialRecord& r) {
    const double first = r.values.empty() ? 0 : r.values[0];
    for (std::int64_t i = 1; i < std::min<std::int64_t>(r.values.size(), 64); ++i) {
      if (r.values[i] != first) {
        return false;
      }
    }
    return true;
  }

  // Of one distribution and longer than what could coincide.
  std::optional<InitialWrong> of_tensor(std::size_t i) {
    const InitialRecord& own = records_[i];
    if (own.values.size() < kPrefix) {
      return std::nullopt;
    }
    for (const std::size_t j : earlier_) {
      if (!draws_equal(i, j)) {
        continue;
      }
      const InitialRecord& other = records_[j];
      const bool equal = own.values.size() == other.values.size() &&
                         own.values.number() == other.values.number() &&
                         std::memcmp(own.values.bytes(),
                                     other.values.bytes(),
                                     static_cast<std::size_t>(own.values.size() *
                                                              bytes_of(own.values.number()))) == 0;
      return InitialWrong{own.name, equal ? kEqual : kSameDraws, other.name};
    }
    earlier_.push_back(i);
    return std::nullopt;
  }

  // The first numbers are equal, or in units of their laws.
  [[nodiscard]] bool draws_equal(std::size_t i, std::size_t j) const {
    const double u = std::max(unit_roundoff(records_[i].values.number()),
                              unit_roundoff(records_[j].values.number()));
    const double scale = laws_[j].size / laws_[i].size;
    bool equal = true;
    bool scaled = laws_[i].kind == laws_[j].kind;
    for (std::int64_t k = 0; k < kPrefix; ++k) {
      const double a = records_[i].values[k];
      const double b = records_[j].values[k];
      equal = equal && a == b;
      const double bound = 8 * u * std::abs(b) + 0x1p-22 * laws_[j].size;
      scaled = scaled && std::abs(a * scale - b) <= bound;
    }
    return equal || scaled;
  }

  std::optional<InitialWrong> of_rows(std::size_t i) {
    const InitialRecord& own = records_[i];
    if (!has_telling_rows(own, rows_)) {
      return std::nullopt;
    }
    const std::int64_t bytes = width_of(own) * bytes_of(own.values.number());
    for (std::int64_t row = 0; row < own.shape[0]; ++row) {
      const unsigned char* const at = own.values.bytes() + row * bytes;
      const auto [found, is_first] = seen_.try_emplace(hash_of(at, bytes), Row{i, row});
      if (is_first) {
        continue;
      }
      const Row& other = found->second;
      const InitialRecord& record = records_[other.tensor];
      const bool same_length = width_of(record) * bytes_of(record.values.number()) == bytes;
      if (same_length && std::memcmp(record.values.bytes() + other.row * bytes,
                                     at,
                                     static_cast<std::size_t>(bytes)) == 0) {
        return InitialWrong{own.name,
                            kEqualRows,
                            "row " + std::to_string(row) + " is row " + std::to_string(other.row) +
                                " of " + record.name};
      }
    }
    return std::nullopt;
  }

  std::span<const InitialRecord> records_;
  const std::vector<InitialLaw>& laws_;
  double rows_ = 0;
  std::vector<std::size_t> earlier_;
  std::map<std::uint64_t, Row> seen_;
};

}  // namespace

std::vector<InitialWrong> repeated(std::span<const InitialRecord> records,
                                   const std::vector<InitialLaw>& laws) {
  return Repeats(records, laws).all();
}

}  // namespace oracles
