// Do gradients travel in buckets of the size that was asked for (parallel.ddp.bucket_mb)? Tensors are put into a bucket until
// it holds as much, as torch's compute_bucket_assignment_by_size does: without its largest tensor a bucket holds less, and
// only what is left over at the end of a type holds less as a whole, and the one bucket that is cut first, at 1 MiB. Where
// the order of the gradients is learnt first, all of them are one bucket in the first step, with a static graph in the first two:
// the Reducer only counts hooks in the first of them.
#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "harness/checks/artefacts.h"
#include "harness/checks/course.h"
#include "harness/checks/list.h"
#include "harness/checks/lives.h"
#include "harness/checks/result.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

constexpr double kMiB = 1048576.0;
constexpr double kFirstBucketMiB = 1.0;  // torch's kDefaultFirstBucketBytes

struct BucketHeld {
  int bucket = 0;
  std::string dtype;
  double bytes = 0.0;
  double largest = 0.0;  // of its tensors
};

// A bucket of a size that the law does not allow.
struct WrongSize {
  bool too_large = false;
  BucketHeld held;
};

std::optional<WrongSize> too_large(const std::vector<BucketHeld>& plan, double asked) {
  for (const BucketHeld& held : plan) {
    if (!(held.bytes - held.largest < asked)) return WrongSize{true, held};
  }
  return std::nullopt;
}

std::optional<WrongSize> too_small(std::vector<BucketHeld> plan, double asked) {
  std::erase_if(plan, [&](const BucketHeld& held) { return held.bytes >= asked; });
  const auto order = [](const BucketHeld& a, const BucketHeld& b) {
    return std::tie(a.dtype, b.bytes) < std::tie(b.dtype, a.bytes);  // the largest of a type first
  };
  std::sort(plan.begin(), plan.end(), order);
  const double first = std::min(asked, kFirstBucketMiB * kMiB);
  int of_type = 0;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    of_type = i > 0 && plan[i].dtype == plan[i - 1].dtype ? of_type + 1 : 1;
    const bool larger_was_full = of_type == 2 && plan[i - 1].bytes >= first;
    if (of_type > 1 && !larger_was_full) return WrongSize{false, plan[i]};
  }
  return std::nullopt;
}

class BucketSizes {
 public:
  explicit BucketSizes(const Evidence& evidence)
      : evidence_(evidence),
        course_(Course::of(evidence)),
        asked_(evidence.the_case.scenario.parallel.bucket_mb * kMiB) {}

  CheckResult judge() {
    for (const std::int64_t step : course_.steps) {
      for (const int rank : all_ranks(evidence_)) judge_one(step, rank);
      if (wrong_.empty()) continue;
      result_.found(finding(step));
      break;
    }
    if (cut_ == 0 && learnt_ > 0) {
      result_.missing(
          "a step after those in which the order of the gradients is learnt: until then "
          "all are one bucket, whatever is asked for");
    }
    return result_.finish(counted(cut_, "bucket plan") + " " + (cut_ == 1 ? "is" : "are") +
                          " cut at " + nsa::to_text(asked_ / kMiB, 3) + " MiB" +
                          (learnt_ > 0 ? ", after first steps in one bucket" : ""));
  }

 private:
  void judge_one(std::int64_t step, int rank) {
    Latest<int, Bucket> rows;
    int life = 0;
    for (const auto& row : evidence_.buckets) {
      if (row.process == rank && row.row.step == step) life = life_at(evidence_, row.t_ms);
    }
    for (const auto& row : evidence_.buckets) {
      const bool here = row.process == rank && row.row.step == step;
      if (here && life_at(evidence_, row.t_ms) == life) rows.put(row.row.bucket, row);
    }
    if (rows.all().empty()) {
      result_.missing("bucket plan of " + process_name(rank) + ", step " + std::to_string(step) +
                          ended_early(evidence_, rank),
                      site_of_rank(rank));
      return;
    }
    if (rows.all().size() == 1 && is_learnt_in(rank, step, life)) {
      ++learnt_;
      return;
    }
    const std::vector<BucketHeld> plan = held(step, rank, rows);
    if (plan.empty()) return;
    ++cut_;
    auto wrong = too_large(plan, asked_);
    if (!wrong) wrong = too_small(plan, asked_);
    if (wrong) wrong_.emplace(rank, *wrong);
  }

  [[nodiscard]] bool is_learnt_in(int rank, std::int64_t step, int life) const {
    std::set<std::int64_t> before;
    for (const auto& row : evidence_.buckets) {
      const bool earlier = row.process == rank && row.row.step < step;
      if (earlier && life_at(evidence_, row.t_ms) == life) before.insert(row.row.step);
    }
    return before.size() < (evidence_.the_case.scenario.parallel.static_graph ? 2U : 1U);
  }

  // With the sizes of the recorded gradients; nothing where they are missing.
  std::vector<BucketHeld> held(std::int64_t step, int rank, const Latest<int, Bucket>& rows) {
    const auto file = open_artefact(evidence_, {rank, "local_gradients", step, rank}, result_);
    if (!file) return {};
    std::vector<BucketHeld> plan;
    for (const auto& [bucket, row] : rows.all()) {
      BucketHeld one{bucket, row->row.dtype};
      std::int64_t elements = 0;
      for (const int index : row->row.params) {
        const auto at = static_cast<std::size_t>(index);
        if (index < 0 || at >= course_.params.size() || !file->contains(course_.params[at])) {
          result_.missing("gradient " + std::to_string(index) + " of bucket " +
                              std::to_string(bucket) + " of " + process_name(rank),
                          site_of_rank(rank));
          return {};
        }
        const nsa::TensorView& gradient = file->at(course_.params[at]);
        elements +=
            static_cast<std::int64_t>(gradient.bytes.size()) / nsa::dtype_bytes(gradient.dtype);
        const auto bytes = static_cast<double>(gradient.bytes.size());
        one.bytes += bytes;
        one.largest = std::max(one.largest, bytes);
      }
      if (elements != row->row.elements) {
        result_.missing("the plan of bucket " + std::to_string(bucket) + " of " +
                            process_name(rank) + " with the " + std::to_string(elements) +
                            " elements of its gradients (it says " +
                            std::to_string(row->row.elements) + ")",
                        site_of_rank(rank));
      }
      plan.push_back(one);
    }
    return plan;
  }

  [[nodiscard]] Finding finding(std::int64_t step) const {
    const WrongSize& first = wrong_.begin()->second;
    std::set<int> ranks;
    for (const auto& [rank, wrong] : wrong_) {
      if (wrong.too_large == first.too_large) ranks.insert(rank);
    }
    Finding finding = make_finding("COMM.BUCKETS", first.too_large ? "too_large" : "too_small");
    finding.site.step = step;
    finding.site.ranks = to_ints(ranks);
    finding.site.op = "grad_sync";
    finding.site.bucket = first.held.bucket;
    finding.facts = {{"asked_bytes", asked_}, {"found_bytes", first.held.bytes}};
    if (first.too_large) finding.facts["largest_bytes"] = first.held.largest;
    return finding;
  }

  const Evidence& evidence_;
  Course course_;
  double asked_ = 0.0;
  std::map<int, WrongSize> wrong_;  // by rank
  ResultBuilder result_;
  std::int64_t cut_ = 0;
  std::int64_t learnt_ = 0;
};

}  // namespace

Check buckets_as_asked() {
  return {"buckets_as_asked",
          "gradients are reduced in buckets of the size that was asked for",
          {"COMM.BUCKETS"},
          [](const Evidence& evidence) { return BucketSizes(evidence).judge(); }};
}

}  // namespace harness::checks
