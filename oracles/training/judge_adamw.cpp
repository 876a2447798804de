#include "oracles/training/judge_adamw.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>

#include "oracles/parallel.h"
#include "oracles/training/adamw_terms.h"

namespace oracles {
namespace {

constexpr std::int64_t kGrain = 64 * kUpdateBlock;  // elements that a thread takes at a time

void validate(const UpdateRecord& record, const UpdateSettings& settings) {
  const std::int64_t count = record.p_before.size();
  const auto check = [&](const char* what, const Numbers& numbers, bool may_be_empty) {
    if (numbers.size() != count && !(may_be_empty && numbers.empty())) {
      throw std::invalid_argument(record.name + ": " + what + " has " +
                                  std::to_string(numbers.size()) + " numbers, wanted " +
                                  std::to_string(count));
    }
  };
  check("m before the step", record.m_before, true);
  check("v before the step", record.v_before, true);
  check("the gradient", record.gradient, false);
  check("p after the step", record.p_after, false);
  check("m after the step", record.m_after, true);
  check("v after the step", record.v_after, true);
  if (settings.n < 1) {
    throw std::invalid_argument(record.name + ": n = " + std::to_string(settings.n) +
                                ", wanted 1 or more");
  }
}

void list_wrong(const UpdateLane& found,
                const UpdateLane& wanted,
                const UpdateLane& bound,
                std::int64_t begin,
                std::int64_t count,
                std::vector<std::int64_t>& wrong) {
  for (std::int64_t i = 0; i < count && wrong.size() < UpdateJudgement::kMostWrong; ++i) {
    if (is_wrong(found[i], wanted[i], bound[i])) {
      wrong.push_back(begin + i);
    }
  }
}

void add(Misfit& misfit, const LaneMisfit& lane, std::int64_t count) {
  misfit.judged += count;
  misfit.wrong += lane.wrong;
  misfit.worst = std::max(misfit.worst, lane.worst);
}

// One piece of a parameter.
class PieceJudge {
 public:
  PieceJudge(const UpdateRecord& record, const UpdateTerms& terms)
      : record_(record), terms_(terms) {}

  UpdateJudgement judge(std::int64_t begin, std::int64_t end) {
    UpdateJudgement judgement;
    for (; begin < end; begin += kUpdateBlock) {
      const std::int64_t count = std::min(kUpdateBlock, end - begin);
      load(record_, begin, count, block_);
      evaluate(terms_, block_, count, result_);
      if (block_.has_m) {
        one(block_.m_after, result_.m, result_.m_bound, begin, count, judgement.m, judgement.wrong);
      }
      if (block_.has_v) {
        one(block_.v_after, result_.v, result_.v_bound, begin, count, judgement.v, judgement.wrong);
      }
      one(block_.p_after, result_.p, result_.p_bound, begin, count, judgement.p, judgement.wrong);
    }
    std::sort(judgement.wrong.begin(), judgement.wrong.end());
    judgement.wrong.erase(std::unique(judgement.wrong.begin(), judgement.wrong.end()),
                          judgement.wrong.end());
    return judgement;
  }

 private:
  static void one(const UpdateLane& found,
                  const UpdateLane& wanted,
                  const UpdateLane& bound,
                  std::int64_t begin,
                  std::int64_t count,
                  Misfit& misfit,
                  std::vector<std::int64_t>& wrong) {
    const LaneMisfit lane = compare(found, wanted, bound, count);
    if (lane.wrong > 0) {
      std::vector<std::int64_t> here;
      list_wrong(found, wanted, bound, begin, count, here);
      misfit.first = misfit.first < 0 ? here.front() : misfit.first;
      wrong.insert(wrong.end(), here.begin(), here.end());
    }
    add(misfit, lane, count);
  }

  const UpdateRecord& record_;
  const UpdateTerms& terms_;
  UpdateBlock block_;
  UpdateResult result_;
};

// `before` without numbers: zeros.
Misfit kept(const Numbers& before, const Numbers& after, std::vector<std::int64_t>& wrong) {
  Misfit misfit;
  for (std::int64_t begin = 0; begin < after.size(); begin += kUpdateBlock) {
    const std::int64_t count = std::min(kUpdateBlock, after.size() - begin);
    const std::vector<double> now = after.part(begin, count).values();
    std::vector<double> old(now.size(), 0.0);
    if (!before.empty()) {
      before.part(begin, count).copy_to(old.data());
    }
    for (std::size_t i = 0; i < now.size(); ++i) {
      const std::int64_t place = begin + static_cast<std::int64_t>(i);
      const bool both_nan = std::isnan(now[i]) && std::isnan(old[i]);
      misfit.add(place, both_nan ? 0 : now[i], both_nan ? 0 : old[i], 0);
      if (!both_nan && !(now[i] == old[i])) {
        wrong.push_back(place);
      }
    }
  }
  return misfit;
}

void sort_and_cut(std::vector<std::int64_t>& wrong) {
  std::sort(wrong.begin(), wrong.end());
  wrong.erase(std::unique(wrong.begin(), wrong.end()), wrong.end());
  wrong.resize(std::min(wrong.size(), UpdateJudgement::kMostWrong));
}

}  // namespace

UpdateSettings settings_of(const TrainConfig& config, std::int64_t n) {
  UpdateSettings s;
  s.beta1 = config.beta1;
  s.beta2 = config.beta2;
  s.eps = config.eps;
  s.weight_decay = config.weight_decay;
  s.lr = learning_rate(config, n);
  s.n = n;
  return s;
}

UpdateJudgement judge_update(const UpdateRecord& record,
                             const UpdateSettings& settings,
                             int threads) {
  validate(record, settings);
  const UpdateTerms terms = right_terms(settings);
  const std::int64_t count = record.p_before.size();
  std::vector<UpdateJudgement> pieces(static_cast<std::size_t>((count + kGrain - 1) / kGrain));
  parallel_for(count, kGrain, threads, [&](std::int64_t begin, std::int64_t end) {
    const auto judge = std::make_unique<PieceJudge>(record, terms);
    pieces[static_cast<std::size_t>(begin / kGrain)] = judge->judge(begin, end);
  });
  UpdateJudgement all;
  for (const UpdateJudgement& piece : pieces) {
    all.m.add(piece.m);
    all.v.add(piece.v);
    all.p.add(piece.p);
    const std::size_t room = UpdateJudgement::kMostWrong - all.wrong.size();
    all.wrong.insert(
        all.wrong.end(),
        piece.wrong.begin(),
        piece.wrong.begin() + static_cast<std::ptrdiff_t>(std::min(room, piece.wrong.size())));
  }
  return all;
}

UpdateJudgement judge_skipped(const UpdateRecord& record) {
  validate(record, {});
  UpdateJudgement judgement;
  judgement.p = kept(record.p_before, record.p_after, judgement.wrong);
  judgement.m = kept(record.m_before, record.m_after, judgement.wrong);
  judgement.v = kept(record.v_before, record.v_after, judgement.wrong);
  sort_and_cut(judgement.wrong);
  return judgement;
}

UpdatePrediction predicted_update(const UpdateRecord& record, const UpdateSettings& settings) {
  validate(record, settings);
  return predicted_by(record, right_terms(settings));
}

UpdatePrediction predicted_by(const UpdateRecord& record, const UpdateTerms& terms) {
  UpdatePrediction prediction;
  const auto block = std::make_unique<UpdateBlock>();
  const auto result = std::make_unique<UpdateResult>();
  const std::int64_t all = record.p_before.size();
  for (std::int64_t begin = 0; begin < all; begin += kUpdateBlock) {
    const std::int64_t count = std::min(kUpdateBlock, all - begin);
    load(record, begin, count, *block);
    evaluate(terms, *block, count, *result);
    for (const auto& [to, from] : {std::pair(&prediction.m, &result->m),
                                   std::pair(&prediction.v, &result->v),
                                   std::pair(&prediction.p, &result->p),
                                   std::pair(&prediction.m_bound, &result->m_bound),
                                   std::pair(&prediction.v_bound, &result->v_bound),
                                   std::pair(&prediction.p_bound, &result->p_bound)}) {
      to->insert(to->end(), from->begin(), from->begin() + count);
    }
  }
  return prediction;
}

}  // namespace oracles
