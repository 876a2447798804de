// Which finding came first. The order of kinds is that of SPEC 7: what a later kind shows can be the consequence of an
// earlier one, never the other way round.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "harness/judge/judge.h"

namespace harness {
namespace {

enum class Kind {
  infrastructure,
  signal,
  resumed,  // found only where all was right before the interruption
  data,
  route,
  forward,
  objective,  // what is learned is not what was meant
  reachability,
  ready,
  early_reduction,  // of an earlier micro-batch: changes what the later ones add to
  overwritten,      // what the backward needs
  explained_gradient,
  local_gradient,
  own_standstill,  // of single ranks: explains what their peers miss from them
  desync,
  explained_reduction,
  reduction,
  wrong_sum,
  update,
  state,
  standstill,
  own_exception,
  other
};

struct KindOfCode {
  std::string_view prefix;
  Kind kind;
};

// The first prefix that fits decides.
constexpr std::array kKinds = {
    KindOfCode{"INFRA.", Kind::infrastructure},
    KindOfCode{"CRASH.SIGNAL", Kind::signal},
    KindOfCode{"CRASH.DEVICE", Kind::signal},
    KindOfCode{"OOM.", Kind::signal},
    KindOfCode{"RESUME.", Kind::resumed},
    KindOfCode{"DATA.", Kind::data},
    KindOfCode{"ROUTE.", Kind::route},
    KindOfCode{"GATE.OVERRIDE", Kind::route},
    KindOfCode{"GATE.", Kind::forward},
    KindOfCode{"MASK.", Kind::forward},
    KindOfCode{"NUMERIC.FORWARD", Kind::forward},
    KindOfCode{"SELECTION.", Kind::forward},
    KindOfCode{"RANGE.", Kind::forward},
    KindOfCode{"CAUSALITY.", Kind::forward},
    KindOfCode{"OVERFLOW.", Kind::forward},
    KindOfCode{"NAN.", Kind::forward},
    KindOfCode{"ALIAS.", Kind::forward},
    KindOfCode{"DECODE.", Kind::forward},
    KindOfCode{"READS.", Kind::forward},
    KindOfCode{"LOSS.BELOW_FLOOR", Kind::objective},
    KindOfCode{"GRAD.MISSING", Kind::reachability},
    KindOfCode{"GRAD.NOT_FINALIZED", Kind::reachability},
    KindOfCode{"GRAD.DOUBLE_READY", Kind::ready},
    KindOfCode{"GRAD.HOOK_LOST", Kind::ready},
    KindOfCode{"COMM.EXTRA", Kind::early_reduction},
    KindOfCode{"GRAD.ZERO", Kind::explained_gradient},
    KindOfCode{"INPLACE.", Kind::overwritten},
    KindOfCode{"CKPT.", Kind::explained_gradient},
    KindOfCode{"NUMERIC.GRADIENT", Kind::local_gradient},
    KindOfCode{"DESYNC.", Kind::desync},
    KindOfCode{"GRAD.SCALE", Kind::explained_reduction},
    KindOfCode{"GRAD.", Kind::reduction},
    // Weights that cannot take up their updates were so from the start: what ranks and twin make of them differs only later.
    KindOfCode{"OPT.UPDATE_LOST", Kind::route},
    KindOfCode{"OPT.", Kind::update},
    KindOfCode{"SCHEDULE.", Kind::update},
    KindOfCode{"STATE.", Kind::state},
    KindOfCode{"HANG.", Kind::standstill},
    KindOfCode{"SLOW.", Kind::standstill},
    KindOfCode{"CRASH.", Kind::own_exception},
};

bool process_was_stopped(const Finding& finding) {
  return finding.code == "HANG.HOST" && finding.site.detail.is_object() &&
         finding.site.detail.value("state", "") == "T";
}

Kind kind_of(const Finding& finding) {
  if (process_was_stopped(finding)) return Kind::signal;
  // A backward that never ran follows from a graph that was cut, not from a route that was not taken.
  if (finding.code == "ROUTE.MISMATCH" && finding.site.phase == "backward") {
    return Kind::local_gradient;
  }
  // Seen in the gradients alone: a wrong backward of the layer looks the same.
  if (finding.code == "CKPT.GRADIENT" && finding.status == Status::hypothesis) {
    return Kind::local_gradient;
  }
  // A wrong sum of right gradients.
  if (finding.code == "NUMERIC.GRADIENT" && finding.site.op == "grad_sync") return Kind::wrong_sum;
  if (finding.code == "HANG.HOST" || finding.code == "HANG.INIT") return Kind::own_standstill;
  for (const KindOfCode& entry : kKinds) {
    if (std::string_view(finding.code).substr(0, entry.prefix.size()) == entry.prefix) {
      return entry.kind;
    }
  }
  return Kind::other;
}

// What is of no step in particular: causes hold from the start, ends come last.
std::int64_t step_of(const Finding& finding, Kind kind) {
  if (kind <= Kind::signal) return 0;
  // Seen over several steps, true from the start.
  if (finding.code == "GATE.DEAD" || finding.code == "GATE.COLLAPSED") return 0;
  if (kind == Kind::objective) return 1;
  if (finding.site.step) return *finding.site.step;
  return kind <= Kind::forward ? 0 : std::numeric_limits<std::int64_t>::max();
}

int vagueness(const Finding& finding) {
  const Site& site = finding.site;
  return 3 - static_cast<int>(!site.branch.empty()) - static_cast<int>(!site.param.empty()) -
         static_cast<int>(!site.op.empty());
}

bool starts_with(const std::string& code, std::string_view prefix) {
  return std::string_view(code).substr(0, prefix.size()) == prefix;
}

// Of findings about one layer's forward: the more a finding explains, the earlier. A write into somebody else's tensor, or a
// number that is not finite, explains what is made of it; a law that gives exactly the rows that are wrong explains that they
// see the future; scores that see the future explain the wrong scores; and a plain deviation explains nothing.
int explains(const Finding& finding) {
  const bool leak = finding.code == "CAUSALITY.LEAK";
  const bool named_law = finding.site.detail.is_object() && finding.site.detail.contains("law");
  if (starts_with(finding.code, "ALIAS.")) return 0;
  if (starts_with(finding.code, "NAN.")) return 1;
  if (starts_with(finding.code, "MASK.") || finding.code == "RANGE.INVALID") return 2;
  if (leak && finding.site.op == "score") return 3;
  if (finding.code == "SELECTION.WRONG") return 4;
  if (leak) return 5;
  // A law that gives exactly these rows says why they see the future; without one, that they do is all that is known.
  if (finding.code == "NUMERIC.FORWARD") return named_law ? 4 : 6;
  return 2;
}

bool share_a_layer(const Finding& a, const Finding& b) {
  const std::vector<int>& layers = a.site.layers;
  return std::any_of(layers.begin(), layers.end(), [&](int layer) {
    return std::find(b.site.layers.begin(), b.site.layers.end(), layer) != b.site.layers.end();
  });
}

using Order = std::tuple<int, std::int64_t, Kind, int, int>;

Order order_of(const Finding& finding) {
  const Kind kind = kind_of(finding);
  const Kind cause = kind == Kind::resumed ? Kind::data : std::min(kind, Kind::data);
  const int rank = kind == Kind::forward ? explains(finding) : 0;
  return {static_cast<int>(cause), step_of(finding, kind), kind, rank, vagueness(finding)};
}

bool can_follow(const Finding& later, const Finding& first) {
  const auto [cause, step, kind, rank, vague] = order_of(first);
  const auto [later_cause, later_step, later_kind, later_rank, later_vague] = order_of(later);
  if (later.code == first.code) return true;
  const auto at = std::tie(cause, step, kind);
  const auto later_at = std::tie(later_cause, later_step, later_kind);
  const bool guessed = starts_with(first.code, "CKPT.") || starts_with(later.code, "CKPT.");
  if (later_at == at && guessed && kind == Kind::local_gradient) return true;
  return later_at > at || (later_at == at && later_rank > rank && share_a_layer(later, first));
}

}  // namespace

void assign_roles(std::vector<Finding>& findings) {
  Finding* first = nullptr;
  for (Finding& finding : findings) {
    if (finding.role == Role::cascade || finding.role == Role::teardown) continue;
    finding.role = Role::unknown;
    if (first == nullptr || order_of(finding) < order_of(*first)) first = &finding;
  }
  if (first == nullptr) return;
  first->role = Role::initiating;
  for (Finding& finding : findings) {
    if (finding.role == Role::unknown && can_follow(finding, *first)) finding.role = Role::cascade;
  }
}

}  // namespace harness
