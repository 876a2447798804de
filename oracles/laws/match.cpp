#include "oracles/laws/match.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "oracles/laws/offset_laws.h"
#include "oracles/laws/stage_laws.h"
#include "oracles/laws/tiled_laws.h"

namespace oracles {
namespace {

std::size_t width_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.shape.back());
}

// Not where one of them is a NaN.
bool is_same(const Tensor& a, const Tensor& b, std::size_t vector, double limit) {
  const std::size_t width = width_of(a);
  for (std::size_t i = vector * width; i < (vector + 1) * width; ++i) {
    if (!(std::abs(a.data[i] - b.data[i]) <= limit)) {
      return false;
    }
  }
  return true;
}

// The heads of a group make one (batch, group, row).
class Units {
 public:
  explicit Units(const Shape& shape)
      : heads_(shape.size() == 5 ? static_cast<std::size_t>(shape[2]) : 1),
        rows_(static_cast<std::size_t>(shape[shape.size() - 2])) {}

  [[nodiscard]] std::size_t unit(std::size_t vector) const {
    return vector / rows_ / heads_ * rows_ + vector % rows_;
  }
  [[nodiscard]] std::size_t head(std::size_t vector) const { return vector / rows_ % heads_; }

 private:
  std::size_t heads_;
  std::size_t rows_;
};

// Tries laws on the tensor of one stage.
class Trial {
 public:
  Trial(const Tensor& found,
        const Tensor& wanted,
        const std::vector<std::size_t>& wrong,
        const Allowed& allowed)
      : found_(found), wanted_(wanted), wrong_(wrong), allowed_(allowed), units_(wanted.shape) {
    for (const std::size_t vector : wrong) {
      wrong_heads_.insert(units_.head(vector));
    }
  }

  // Does the law give every wrong vector?
  [[nodiscard]] bool explains(const Tensor& output) const {
    const double limit = allowed_.of(output);
    return std::all_of(wrong_.begin(), wrong_.end(), [&](std::size_t vector) {
      return is_same(output, found_, vector, limit);
    });
  }

  struct Extent {
    double share = 1;  // of the (batch, group, row) in which the law would show, where it holds
    bool everywhere = true;  // also in the heads that are right in all rows
  };
  [[nodiscard]] Extent extent(const Tensor& output) const {
    const double limit = allowed_.of(output);
    Extent extent;
    std::set<std::size_t> shows;
    std::set<std::size_t> contradicted;
    for (const std::size_t vector : wrong_vectors(output, wanted_, limit)) {
      const bool holds = is_same(output, found_, vector, limit);
      extent.everywhere = extent.everywhere && holds;
      if (wrong_heads_.count(units_.head(vector)) == 0) {
        continue;
      }
      shows.insert(units_.unit(vector));
      if (!holds) {
        contradicted.insert(units_.unit(vector));
      }
    }
    if (!shows.empty()) {
      extent.share -= static_cast<double>(contradicted.size()) / static_cast<double>(shows.size());
    }
    return extent;
  }

 private:
  const Tensor& found_;
  const Tensor& wanted_;
  const std::vector<std::size_t>& wrong_;
  const Allowed& allowed_;
  Units units_;
  std::set<std::size_t> wrong_heads_;
};

// Vectors of some rows of a tensor, and what they are called there.
std::vector<std::size_t> vectors_at(const std::vector<std::size_t>& vectors,
                                    const std::vector<std::size_t>& places,
                                    std::size_t rows) {
  std::vector<std::size_t> there;
  for (const std::size_t vector : vectors) {
    const auto at = std::lower_bound(places.begin(), places.end(), vector % rows);
    if (at != places.end() && *at == vector % rows) {
      there.push_back(vector / rows * places.size() +
                      static_cast<std::size_t>(at - places.begin()));
    }
  }
  return there;
}

// A law that fails in a few of the wrong rows need not be computed in all rows. Laws over all keys
// of a long sequence cost minutes.
class Sieve {
 public:
  Sieve(const Stages& stages,
        Stage stage,
        const Tensor& found,
        const Tensor& wanted,
        const std::vector<std::size_t>& wrong,
        const Allowed& allowed)
      : stage_(stage) {
    constexpr std::size_t kFew = 4;
    const auto rows = static_cast<std::size_t>(stages.sizes().rows);
    std::set<std::size_t> places;
    for (std::size_t i = 0; i < wrong.size() && places.size() < kFew; ++i) {
      places.insert(wrong[i * 7919 % wrong.size()] % rows);  // spread over all of them
    }
    if (!is_of_queries(stage) || rows <= 4 * places.size()) {
      return;
    }
    const std::vector<std::size_t> some(places.begin(), places.end());
    few_ = stages.at_rows(some);
    found_ = rows_at(found, some);
    wanted_ = rows_at(wanted, some);
    wrong_ = vectors_at(wrong, some, rows);
    trial_.emplace(found_, wanted_, wrong_, allowed);
  }

  // Laws that have no meaning at a few rows are let through.
  [[nodiscard]] bool lets_through(const StageLaw& law) const {
    const bool has_meaning = few_ && (!law.makes_sense || law.makes_sense(*few_, stage_));
    return !has_meaning || trial_->explains(law.output(*few_, stage_));
  }
  [[nodiscard]] bool lets_through(const OutputOf& output) const {
    return !few_ || trial_->explains(output(*few_));
  }

 private:
  Stage stage_;
  std::unique_ptr<const Stages> few_;
  Tensor found_;
  Tensor wanted_;
  std::vector<std::size_t> wrong_;
  std::optional<Trial> trial_;
};

bool holds_everywhere(const LawFit& law) {
  return law.share >= 1;
}

// Heads of [B,G,h,R,W] or groups of [B,G,R,W] in one sequence.
std::int64_t lanes_of(const Shape& shape) {
  return shape.size() == 5 ? shape[1] * shape[2] : shape.size() == 4 ? shape[1] : 0;
}

}  // namespace

double Allowed::of(const Tensor& wanted) const {
  return relative * std::max(finite_scale(wanted), scale);
}

double finite_scale(const Tensor& tensor) {
  double most = 0;
  for (const double value : tensor.data) {
    if (std::isfinite(value)) {
      most = std::max(most, std::abs(value));
    }
  }
  return most;
}

std::vector<std::size_t> wrong_vectors(const Tensor& found, const Tensor& wanted, double limit) {
  const std::size_t width = width_of(wanted);
  std::vector<std::size_t> wrong;
  for (std::size_t i = 0; i < wanted.data.size(); ++i) {
    if (!std::isfinite(wanted.data[i]) || std::abs(found.data[i] - wanted.data[i]) <= limit) {
      continue;
    }
    wrong.push_back(i / width);
    i = (i / width + 1) * width - 1;  // on to the next vector
  }
  return wrong;
}

std::vector<std::size_t> refuting_vectors(const Tensor& found,
                                          const Tensor& wanted,
                                          const Tensor& output,
                                          const Allowed& allowed) {
  const double limit = allowed.of(output);
  std::vector<std::size_t> refuting = wrong_vectors(output, wanted, 2 * limit);
  std::erase_if(refuting,
                [&](std::size_t vector) { return is_same(output, found, vector, limit); });
  return refuting;
}

Naming name_stage(const Stages& stages,
                  Stage stage,
                  const Tensor& found,
                  const Tensor& wanted,
                  const std::vector<std::size_t>& wrong,
                  const Allowed& allowed) {
  Naming naming;
  naming.right.judged = static_cast<std::int64_t>(wanted.data.size() / width_of(wanted));
  naming.right.wrong = static_cast<std::int64_t>(wrong.size());
  if (wrong.empty()) {
    return naming;
  }
  naming.right.first = static_cast<std::int64_t>(wrong.front());
  const Trial trial(found, wanted, wrong, allowed);
  const Sieve sieve(stages, stage, found, wanted, wrong, allowed);
  std::vector<LawFit> everywhere;
  for (const StageLaw* law : stage_laws(stage, stages)) {
    if (!sieve.lets_through(*law)) {
      continue;
    }
    const Tensor output = law->output(stages, stage);
    if (trial.explains(output)) {
      const Trial::Extent extent = trial.extent(output);
      naming.fitting.push_back({law->law, {}, extent.share, {}});
      if (extent.everywhere) {
        everywhere.push_back(naming.fitting.back());
      }
    }
  }
  if (!everywhere.empty()) {
    naming.fitting = std::move(everywhere);
  }
  // Those that hold in a part of the rows may be met by chance: laws with forms may give all of them.
  const auto gives_all = [&](const Tensor& output) {
    return trial.explains(output) && trial.extent(output).share >= 1;
  };
  if (std::none_of(naming.fitting.begin(), naming.fitting.end(), holds_everywhere)) {
    for (const LawFit& fit : offset_laws(stages, stage, wrong, gives_all)) {
      naming.fitting.push_back(fit);
    }
  }
  if (std::none_of(naming.fitting.begin(), naming.fitting.end(), holds_everywhere)) {
    for (const LawFit& fit : fitting_tiled_laws(stage, [&](const OutputOf& output) {
           return sieve.lets_through(output) && gives_all(output(stages));
         })) {
      naming.fitting.push_back(fit);
    }
  }
  if (naming.fitting.empty() && stage != Stage::blocks) {
    naming.fitting = fitted_patterns(found, wanted, wrong, lanes_of(wanted.shape), allowed);
  }
  keep_the_strongest(naming.fitting);
  return naming;
}

}  // namespace oracles
