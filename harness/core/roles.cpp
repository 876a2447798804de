// Which finding came first. The order of kinds is that of SPEC 7: what a later kind shows can be the consequence of an
// earlier one, never the other way round.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <tuple>

#include "harness/core/judge.h"

namespace harness {
namespace {

enum class Kind {
  infrastructure,
  signal,
  data,
  route,
  forward,
  reachability,
  ready,
  early_reduction,  // of an earlier micro-batch: changes what the later ones add to
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
    KindOfCode{"DATA.", Kind::data},
    KindOfCode{"ROUTE.", Kind::route},
    KindOfCode{"GATE.OVERRIDE", Kind::route},
    KindOfCode{"MASK.", Kind::forward},
    KindOfCode{"NUMERIC.FORWARD", Kind::forward},
    KindOfCode{"SELECTION.", Kind::forward},
    KindOfCode{"RANGE.", Kind::forward},
    KindOfCode{"CAUSALITY.", Kind::forward},
    KindOfCode{"OVERFLOW.", Kind::forward},
    KindOfCode{"NAN.", Kind::forward},
    KindOfCode{"GRAD.MISSING", Kind::reachability},
    KindOfCode{"GRAD.NOT_FINALIZED", Kind::reachability},
    KindOfCode{"GRAD.DOUBLE_READY", Kind::ready},
    KindOfCode{"GRAD.HOOK_LOST", Kind::ready},
    KindOfCode{"COMM.EXTRA", Kind::early_reduction},
    KindOfCode{"GRAD.ZERO", Kind::explained_gradient},
    KindOfCode{"CKPT.", Kind::explained_gradient},
    KindOfCode{"NUMERIC.GRADIENT", Kind::local_gradient},
    KindOfCode{"DESYNC.", Kind::desync},
    KindOfCode{"GRAD.SCALE", Kind::explained_reduction},
    KindOfCode{"GRAD.", Kind::reduction},
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
  if (finding.site.step) return *finding.site.step;
  return kind <= Kind::forward ? 0 : std::numeric_limits<std::int64_t>::max();
}

int vagueness(const Finding& finding) {
  const Site& site = finding.site;
  return 3 - static_cast<int>(!site.branch.empty()) - static_cast<int>(!site.param.empty()) -
         static_cast<int>(!site.op.empty());
}

using Order = std::tuple<int, std::int64_t, Kind, int>;

Order order_of(const Finding& finding) {
  const Kind kind = kind_of(finding);
  const int cause = std::min(static_cast<int>(kind), static_cast<int>(Kind::data));
  return {cause, step_of(finding, kind), kind, vagueness(finding)};
}

bool can_follow(const Finding& later, const Finding& first) {
  const auto [cause, step, kind, vague] = order_of(first);
  const auto [later_cause, later_step, later_kind, later_vague] = order_of(later);
  return later.code == first.code ||
         std::tie(later_cause, later_step, later_kind) > std::tie(cause, step, kind);
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
