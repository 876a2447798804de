#include "harness/checks/gradients/sequences.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace harness::checks {
namespace {

using Operations = std::vector<int>;
using Indices = std::vector<std::size_t>;

Operations sorted(Operations operations) {
  std::sort(operations.begin(), operations.end());
  return operations;
}

Operations first_of(const Operations& operations, std::size_t count) {
  return {operations.begin(), operations.begin() + static_cast<std::ptrdiff_t>(count)};
}

// `shorter` found in `longer`, in order, as early as may be.
struct Insertion {
  Indices extra;         // places in `longer` that are left over
  bool whole = false;    // all of `shorter` was found
  bool goes_on = false;  // the last operation of `longer` is one that was found
};

Insertion inserted(const Operations& longer, const Operations& shorter) {
  Insertion seen;
  std::size_t next = 0;
  for (std::size_t i = 0; i < longer.size(); ++i) {
    seen.goes_on = next < shorter.size() && longer[i] == shorter[next];
    if (seen.goes_on) {
      ++next;
    } else {
      seen.extra.push_back(i);
    }
  }
  seen.whole = next == shorter.size();
  return seen;
}

// The last ones of each operation that `a` has more often than `b`.
Indices surplus(const Operations& a, const Operations& b) {
  std::map<int, std::ptrdiff_t> more;
  for (const int operation : a) ++more[operation];
  for (const int operation : b) --more[operation];
  Indices places;
  for (std::size_t i = a.size(); i-- > 0;) {
    if (more[a[i]]-- > 0) places.push_back(i);
  }
  std::reverse(places.begin(), places.end());
  return places;
}

SequenceGap of_whole(const Operations& a, const Operations& b) {
  SequenceGap departure{false, surplus(a, b), surplus(b, a), false};
  if (!departure.extra_a.empty() && !departure.extra_b.empty()) return {false, {}, {}, true};
  if (departure.extra_a.empty() && departure.extra_b.empty()) {
    departure.order = a != b;
    return departure;
  }
  const bool of_a = departure.extra_b.empty();
  Insertion seen = inserted(of_a ? a : b, of_a ? b : a);
  if (seen.whole) {
    (of_a ? departure.extra_a : departure.extra_b) = std::move(seen.extra);
  } else {
    departure.order = true;
  }
  return departure;
}

// `with` issued something between, and went on with what `without` does. That it went on is seen from its last operation: that is
// one of the other's too. What the other has beyond that, this one may have had no time for.
std::optional<Indices> inserted_so_far(const Operations& with, const Operations& without) {
  Insertion seen = inserted(with, without);
  if (!seen.goes_on || seen.extra.empty()) return std::nullopt;
  return std::move(seen.extra);
}

SequenceGap of_cut(const Operations& a, const Operations& b) {
  const std::size_t both = std::min(a.size(), b.size());
  const Operations begin_a = first_of(a, both);
  const Operations begin_b = first_of(b, both);
  if (begin_a == begin_b) return {};
  const auto in_a = inserted_so_far(a, b);
  const auto in_b = inserted_so_far(b, a);
  const std::size_t most = a.size() + b.size();  // more than there can be
  const std::size_t of_a = in_a ? in_a->size() : most;
  const std::size_t of_b = in_b ? in_b->size() : most;
  if (of_a < of_b) return {false, *in_a, {}, false};
  if (of_b < of_a) return {false, {}, *in_b, false};
  // Either side may have the extra one, or none has: only the last does not need to choose a side.
  const bool order = sorted(begin_a) == sorted(begin_b);
  return {order, {}, {}, !order};
}

}  // namespace

SequenceGap departure_of(const IssuedInStep& a, const IssuedInStep& b) {
  return a.whole && b.whole ? of_whole(a.operations, b.operations)
                            : of_cut(a.operations, b.operations);
}

}  // namespace harness::checks
