// What the judgements of blocks and of the model's ends have in common: recorded tensors by name, one stage after the other, and
// what is said of those that are wrong.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "harness/checks/step/step_blocks.h"
#include "oracles/expected.h"

namespace harness::checks {

class PartJudge {
 public:
  PartJudge(const RecordedModel& model, int layer) : model_(model), layer_(layer) {}

 protected:
  enum class Way { forward, backward };

  // A stage of an operation: forward, or on the way back. `tensor` is what it gives, for people.
  struct StageAt {
    Way way;
    std::string op;
    std::string tensor;
    std::string param = {};  // whose gradient it is
  };

  using Name = std::function<oracles::Naming()>;

  // Number by number.
  void judge_values(const StageAt& at,
                    const oracles::Matrix& found,
                    const oracles::Expected& right,
                    const Name& name);
  // By projections.
  void judge_projected(
      const StageAt& at,
      const oracles::Product& product,
      const std::function<oracles::Naming(const std::vector<std::int64_t>&)>& name = {});
  // Is the gradient through this operation the oracle's to know? Not where its forward is another function.
  [[nodiscard]] bool knows_gradient_of(const std::string& op);
  [[nodiscard]] bool is_wrong(const std::string& op) const { return wrong_.count(op) > 0; }
  // Its input on record is not what it read: its gradient is not known.
  void read_another(const std::string& op) { wrong_.insert(op); }
  // A weight's recorded gradient; where there is none, it is said.
  [[nodiscard]] std::optional<oracles::Matrix> gradient_of(const std::string& param);
  // Its recorded inputs give `right` in place of it.
  void depart(const oracles::Matrix& found, std::optional<Right> right);
  void tell(const StageAt& at, const oracles::Naming& naming, Facts detail);

  [[nodiscard]] oracles::Matrix weight(const std::string& param) const {
    return model_.weight(param);
  }
  [[nodiscard]] oracles::Tensor gain(const std::string& param) const;
  [[nodiscard]] const oracles::Rounding& rounding() const { return model_.rounding; }

  const RecordedModel& model_;
  int layer_;
  PartJudgement verdict_;

 private:
  std::set<std::string> wrong_;  // operations whose forward is not the oracle's
  std::set<std::string> unknown_;
};

// Are all numbers finite? What is not has a check of its own.
[[nodiscard]] bool is_finite(const oracles::Matrix& matrix);

}  // namespace harness::checks
