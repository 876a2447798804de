// What each rank holds of a sum that is known beforehand must be that sum, to the last bit. The sums are computed here from the
// seed; of what the ranks recorded, the hash decides. What they say of single elements is checked before it is told.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <map>
#include <optional>
#include <tuple>

#include "harness/checks/process/machine_parts.h"
#include "nsa/base/hash.h"
#include "nsa/base/text.h"
#include "oracles/training/exact_sums.h"

namespace harness::checks {
namespace {

// A law must explain so many elements: one or two small integers are equal by chance.
constexpr std::size_t kFewestForALaw = 3;

// IEEE bits of an integer that the type holds exactly, lowest byte first.
std::string bytes_of_integer(int value, const std::string& dtype) {
  std::array<char, 8> bytes{};
  const auto put = [&](auto bits, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
      bytes.at(i) = static_cast<char>((bits >> (8 * i)) & 0xFFU);
    return std::string(bytes.data(), size);
  };
  const auto single = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (dtype == "Double") return put(std::bit_cast<std::uint64_t>(static_cast<double>(value)), 8);
  if (dtype == "Float") return put(single, 4);
  if (dtype == "BFloat16") return put(single >> 16U, 2);
  if (dtype != "Half") return "";
  if (value == 0) return put(0U, 2);
  // The exponent's bias is 15 instead of 127, and the fraction has 10 bits instead of 23.
  const std::uint32_t sign = single >> 31U;
  const std::uint32_t exponent = ((single >> 23U) & 0xFFU) - 127U + 15U;
  return put((sign << 15U) | (exponent << 10U) | ((single >> 13U) & 0x3FFU), 2);
}

using SumPlace = std::pair<std::int64_t, int>;  // step, bucket

class KnownSums {
 public:
  KnownSums(const Evidence& evidence, ResultBuilder& result)
      : evidence_(evidence), result_(result) {
    for (const auto& row : evidence.exact_sums) {
      if (row.process >= 0) held_.put({row.row.step, row.row.bucket, row.process}, row);
    }
    for (const auto& row : evidence.buckets) {
      if (row.process >= 0) plans_.put({row.row.step, row.row.bucket, row.process}, row);
    }
  }

  std::string judge() {
    demand();
    for (const auto& [at, row] : held_.all()) judge_one(std::get<2>(at), row->row);
    result_.measured("known_sums_wrong", static_cast<double>(wrong_.size()), 0.0);
    if (!wrong_.empty()) tell();
    return std::to_string(held_.all().size()) +
           " results of sums that are known beforehand are right to the last bit on " +
           ranks_text(all_ranks(evidence_));
  }

 private:
  using Key = std::tuple<std::int64_t, int, int>;  // step, bucket, rank

  // Every rank of every bucket of a step in which they were due.
  void demand() {
    const std::int64_t steps = evidence_.the_case.scenario.training.steps;
    if (plans_.all().empty()) result_.missing("the buckets of any step");
    for (const auto& [at, plan] : plans_.all()) {
      const auto& [step, bucket, rank] = at;
      if (!ExactSum::is_due(step, steps)) continue;
      const ExactSum* row = held_.find(at);
      if (row != nullptr && row->elements == plan->row.elements) continue;
      result_.missing("the known sum of bucket " + std::to_string(bucket) + ", step " +
                          std::to_string(step) + ", on " + process_name(rank) +
                          ended_early(evidence_, rank),
                      site_of_rank(rank));
    }
  }

  [[nodiscard]] oracles::ExactSum sum_of(const ExactSum& row) const {
    return {evidence_.the_case.scenario.seed, row.step, row.bucket, evidence_.ranks()};
  }

  // The hash of what everybody should hold; "" of a type that is none of gradients.
  const std::string& wanted(const ExactSum& row) {
    const auto [at, is_new] =
        wanted_.try_emplace({row.step, row.bucket, row.elements, row.dtype}, std::string());
    if (!is_new) return at->second;
    std::string period;
    for (const int value :
         oracles::sums(sum_of(row), std::min(row.elements, oracles::kSumPeriod))) {
      period += bytes_of_integer(value, row.dtype);
    }
    if (period.empty()) return at->second;
    nsa::Hasher hasher;
    std::int64_t left = row.elements;
    const std::size_t size = bytes_of_integer(0, row.dtype).size();
    for (; left >= oracles::kSumPeriod; left -= oracles::kSumPeriod) hasher.update(period);
    hasher.update(std::string_view(period).substr(0, static_cast<std::size_t>(left) * size));
    at->second = hasher.hex();
    return at->second;
  }

  void judge_one(int rank, const ExactSum& row) {
    // As large as a model at most: whoever writes rows could ask for any number of additions.
    const bool possible =
        row.elements > 0 && row.elements <= evidence_.the_case.scenario.model.parameter_count();
    if (!possible || wanted(row).empty()) {
      result_.missing("a known sum of the size and type of gradients (found " +
                      std::to_string(row.elements) + " of " + row.dtype + ")");
      return;
    }
    if (row.hash == wanted(row)) return;
    wrong_[{row.step, row.bucket}][rank] = &row;
  }

  // The one element to show: the first that a rank names and that is wrong indeed.
  struct Example {
    std::int64_t place = 0;
    std::string found;
    int wanted = 0;
  };
  [[nodiscard]] std::optional<Example> example(const ExactSum& row) const {
    const std::vector<int> sums =
        oracles::sums(sum_of(row), std::min(row.elements, oracles::kSumPeriod));
    for (std::size_t i = 0; i < std::min(row.places.size(), row.values.size()); ++i) {
      if (row.places[i] < 0 || row.places[i] >= row.elements) continue;
      const int right = sums[static_cast<std::size_t>(row.places[i] % oracles::kSumPeriod)];
      if (!(std::strtod(row.values[i].c_str(), nullptr) == right)) {
        return Example{row.places[i], row.values[i], right};
      }
    }
    return std::nullopt;
  }

  // Which of the ranks' addends make what is held in every element that the rank names.
  [[nodiscard]] bool holds(const ExactSum& row, const std::vector<int>& values) const {
    for (std::size_t i = 0; i < row.places.size(); ++i) {
      const auto at = static_cast<std::size_t>(row.places[i] % oracles::kSumPeriod);
      if (!(std::strtod(row.values[i].c_str(), nullptr) == values.at(at))) return false;
    }
    return true;
  }

  [[nodiscard]] std::string law_of(int rank, const ExactSum& row) const {
    const bool whole = row.places.size() == row.values.size() &&
                       std::all_of(row.places.begin(), row.places.end(), [&](std::int64_t place) {
                         return place >= 0 && place < row.elements;
                       });
    if (!whole || row.places.size() < kFewestForALaw) return "";
    const oracles::ExactSum sum = sum_of(row);
    const std::int64_t count = std::min(row.elements, oracles::kSumPeriod);
    if (holds(row, oracles::addends(sum, rank, count))) return "own_addends";
    const std::vector<int> all = oracles::sums(sum, count);
    for (int other = 0; other < evidence_.ranks(); ++other) {
      std::vector<int> without = oracles::addends(sum, other, count);
      for (std::size_t i = 0; i < without.size(); ++i) without[i] = all[i] - without[i];
      if (holds(row, without)) return "without_addends_of_a_rank";
    }
    return "";
  }

  // Of the first step with a wrong one.
  void tell() {
    const std::int64_t step = wrong_.begin()->first.first;
    Finding finding = make_finding("INFRA.COMM_CORRUPT", "known_sum");
    std::set<int> ranks;
    std::set<int> buckets;
    std::set<std::int64_t> steps;
    std::set<std::string> laws;
    std::int64_t most = 0;
    std::int64_t of = 0;
    for (const auto& [place, of_rank] : wrong_) {
      steps.insert(place.first);
      if (place.first != step) continue;
      buckets.insert(place.second);
      for (const auto& [rank, row] : of_rank) {
        ranks.insert(rank);
        laws.insert(law_of(rank, *row));
        if (row->wrong < most) continue;
        most = row->wrong;
        of = row->elements;
        finding.facts["dtype"] = row->dtype;
        const auto shown = example(*row);
        if (!shown) continue;
        finding.facts["element"] = shown->place;
        finding.facts["found"] = shown->found;
        finding.facts["wanted"] = shown->wanted;
      }
    }
    finding.site.step = step;
    finding.site.ranks = to_ints(ranks);
    finding.site.op = "allreduce";
    if (buckets.size() == 1) finding.site.bucket = *buckets.begin();
    if (laws.size() == 1 && !laws.begin()->empty()) finding.site.detail["law"] = *laws.begin();
    if (most > 0) finding.facts["wrong"] = most;
    finding.facts["elements"] = of;
    finding.facts["sizes"] = buckets.size();
    finding.facts["steps"] = steps.size();
    result_.found(std::move(finding));
  }

  const Evidence& evidence_;
  ResultBuilder& result_;
  Latest<Key, ExactSum> held_;
  Latest<Key, Bucket> plans_;
  std::map<std::tuple<std::int64_t, int, std::int64_t, std::string>, std::string> wanted_;
  std::map<SumPlace, std::map<int, const ExactSum*>> wrong_;
};

}  // namespace

std::string judge_known_sums(const Evidence& evidence, ResultBuilder& result) {
  const Scenario& scenario = evidence.the_case.scenario;
  if (scenario.kind != "training" || evidence.ranks() < 2) return "";
  if (evidence.ranks() > oracles::kMostRanksOfASum) return "";
  return KnownSums(evidence, result).judge();
}

}  // namespace harness::checks
