#include "harness/worker/watch/seam_watch.h"

#include <algorithm>
#include <array>
#include <exception>
#include <type_traits>
#include <utility>

#include <ATen/SequenceNumber.h>

#include "harness/evidence/seen_by.h"

namespace harness {
namespace {

using torch::Tensor;

thread_local SeamPlace
    now_running;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): of this thread alone
thread_local SeamPlace
    left_by_exception;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): likewise

// Values are compared bit by bit, so a write that bypasses autograd (a raw pointer, data()) is seen too. A copy lives as long as
// the call. Of a float tensor that is larger the sum of all bits is compared, which an exchange of numbers leaves as it is; queries
// of 768 numbers at 2048 tokens fit.
constexpr std::size_t kMostBytesCompared = std::size_t{8} << 20;

struct Before {
  const char* name = "";
  Tensor tensor;
  Tensor copy;  // undefined where it is too large
  Tensor sum;   // then: of its bits
  std::int64_t version = 0;
};

// NaN equals itself in these.
Tensor bits_of(const Tensor& tensor) {
  switch (tensor.element_size()) {
    case 8: return tensor.view(torch::kLong);
    case 4: return tensor.view(torch::kInt);
    case 2: return tensor.view(torch::kShort);
    default: return tensor;
  }
}

Before look_at(const char* name, const Tensor& tensor) {
  Before before{name, tensor, {}, {}, 0};
  if (!tensor.defined()) {
    return before;
  }
  if (!tensor.is_floating_point() || tensor.nbytes() <= kMostBytesCompared) {
    before.copy = tensor.detach().clone();
  } else {
    before.sum = bits_of(tensor.detach()).sum();
  }
  before.version = tensor.is_inference() ? 0 : tensor._version();
  return before;
}

struct Written {
  std::int64_t elements =
      0;  // that have another value now; all of them where only a sum or the version tells
  const char* seen_by = "";
};

Written written(const Before& before) {
  if (!before.tensor.defined()) return {};
  const std::int64_t changed =
      before.copy.defined()
          ? bits_of(before.tensor.detach()).ne(bits_of(before.copy)).sum().item<std::int64_t>()
          : 0;
  const bool same = before.tensor.is_inference() || before.tensor._version() == before.version;
  if (changed > 0) return {changed, same ? "values" : "values and version counter"};
  if (before.sum.defined() && !torch::equal(bits_of(before.tensor.detach()).sum(), before.sum)) {
    return {before.tensor.numel(),
            same ? "sum of all bits" : "sum of all bits and version counter"};
  }
  // Integers that were written as they are decide nothing else.
  if (same || !before.tensor.is_floating_point()) return {};
  return {before.tensor.numel(), before.copy.defined() ? kSeenByVersionAlone : "version counter"};
}

template <typename Argument>
void look_at_argument(const char* name, const Argument& argument, std::vector<Before>& seen) {
  if constexpr (std::is_same_v<Argument, Tensor>) {
    seen.push_back(look_at(name, argument));
  }
}

}  // namespace

// One call of one seam: from its construction to finish().
class SeamCall {
 public:
  SeamCall(SeamWatch& watch, int layer, const char* seam)
      : watch_(watch),
        outer_(std::exchange(now_running, SeamPlace{layer, seam})),
        begin_(at::sequence_number::peek()) {
    left_by_exception = {};
    watch.progress_.at_layer(layer);
  }
  ~SeamCall() {
    if (std::uncaught_exceptions() > exceptions_) left_by_exception = now_running;
    watch_.ended({begin_, at::sequence_number::peek(), now_running});
    now_running = outer_;
  }
  SeamCall(const SeamCall&) = delete;
  SeamCall& operator=(const SeamCall&) = delete;

  void check(const std::vector<Before>& arguments) const {
    const torch::NoGradGuard no_grad;
    ++watch_.calls_;
    for (const Before& before : arguments) {
      const Written seen = written(before);
      watch_.tell(now_running, before.name, seen.elements, seen.seen_by);
    }
  }

  template <typename... Arguments>
  static void wrap(SeamWatch& watch,
                   const char* seam,
                   std::array<const char*, sizeof...(Arguments)> names,
                   std::function<Tensor(const nsa::SeamContext&, Arguments...)>& function) {
    function = [inner = std::move(function), &watch, seam, names](const nsa::SeamContext& context,
                                                                  Arguments... arguments) {
      const SeamCall call(watch, context.layer, seam);
      std::vector<Before> before;
      std::size_t i = 0;
      (look_at_argument<std::decay_t<Arguments>>(names[i++], arguments, before), ...);
      (void)watch.syncs_.take();  // what looking cost
      if (watch.in_front_) watch.in_front_();
      Tensor result = inner(context, arguments...);
      watch.waited(now_running, watch.syncs_.take());
      call.check(before);
      watch.made_output(now_running, result);
      return result;
    };
  }

 private:
  SeamWatch& watch_;
  SeamPlace outer_;
  std::uint64_t begin_;
  int exceptions_ = std::uncaught_exceptions();
};

void SeamWatch::install(nsa::NsaLm& model) {
  for (int layer = 0; layer < static_cast<int>(model->config().n_layers); ++layer) {
    watch_layer(model->attention(layer)->seams());
  }
}

void SeamWatch::watch_layer(nsa::AttentionSeams& seams) {
  seams.select = [inner = std::move(seams.select), this](const nsa::SeamContext& context,
                                                         const Tensor& p_grp_BGSN) {
    Tensor blocks_BGSn = inner(context, p_grp_BGSN);
    blocks_[context.layer] = blocks_BGSn.detach().clone();
    return blocks_BGSn;
  };
  watch_whole_layer(seams);
  SeamCall::wrap(*this, "project", {"x", "weight", ""}, seams.project);
  SeamCall::wrap(*this, "rope", {"x", ""}, seams.rope);
  SeamCall::wrap(*this, "compress", {"raw", "", ""}, seams.compress);
  SeamCall::wrap(*this, "score", {"q", "k_cmp"}, seams.score);
  SeamCall::wrap(*this, "select", {"p_grp"}, seams.select);
  SeamCall::wrap(*this, "attend_cmp", {"q", "k", "v"}, seams.attend_cmp);
  SeamCall::wrap(*this, "attend_sel", {"q", "k", "v", "blocks"}, seams.attend_sel);
  SeamCall::wrap(*this, "attend_win", {"q", "k", "v"}, seams.attend_win);
  SeamCall::wrap(*this, "gate", {"x", "q", ""}, seams.gate);
}

// Only what it was given: the seams that it calls are watched each by itself.
void SeamWatch::watch_whole_layer(nsa::AttentionSeams& seams) {
  seams.attention = [inner = std::move(seams.attention), this](const nsa::SeamContext& context,
                                                               const nsa::AttentionSeams& parts,
                                                               const nsa::AttentionWeights& weights,
                                                               const Tensor& x_BSE) {
    const Before before = look_at("x", x_BSE);
    if (in_front_) in_front_();
    nsa::AttentionTrace trace = inner(context, parts, weights, x_BSE);
    const torch::NoGradGuard no_grad;
    ++calls_;
    const Written seen = written(before);
    tell({context.layer, "attention"}, before.name, seen.elements, seen.seen_by);
    return trace;
  };
}

void SeamWatch::tell(const SeamPlace& by,
                     const std::string& tensor,
                     std::int64_t elements,
                     const std::string& seen_by) {
  if (elements == 0) return;
  channel_.write(Mutation{step_, by.layer, by.seam, tensor, elements, seen_by});
}

void SeamWatch::begin(std::int64_t step) {
  step_ = step;
  blocks_.clear();
  outputs_.clear();
  const std::lock_guard lock(mutex_);
  ranges_.clear();
}

// Those of a checkpointed forward too, whose graph comes later: somebody who holds one goes on with it.
void SeamWatch::made_output(const SeamPlace& place, const Tensor& tensor) {
  if (!tensor.defined() || tensor.is_inference()) return;
  outputs_.push_back({place,
                      c10::weak_intrusive_ptr<at::TensorImpl>(tensor.getIntrusivePtr()),
                      tensor._version()});
}

void SeamWatch::check_outputs() {
  for (const Output& output : outputs_) {
    const auto alive = output.tensor.lock();
    if (!alive) continue;
    const Tensor tensor(alive);
    if (tensor._version() == output.version) continue;
    channel_.write(InPlace{step_,
                           output.place.layer,
                           output.place.seam,
                           "output",
                           output.version,
                           tensor._version(),
                           tensor.numel()});
  }
  outputs_.clear();
}

void SeamWatch::ended(const Range& range) {
  if (range.begin == range.end) {
    return;
  }
  const std::lock_guard lock(mutex_);
  ranges_.push_back(range);
}

SeamPlace SeamWatch::running() {
  return now_running;
}

SeamPlace SeamWatch::threw() {
  return left_by_exception;
}

SeamPlace SeamWatch::made(std::int64_t sequence) const {
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& range) {
    return sequence >= static_cast<std::int64_t>(range.begin) &&
           sequence < static_cast<std::int64_t>(range.end);
  });
  return at == ranges_.end() ? SeamPlace{} : at->place;
}

torch::Tensor SeamWatch::blocks(int layer) const {
  const auto at = blocks_.find(layer);
  return at == blocks_.end() ? Tensor() : at->second;
}

void SeamWatch::waited(const SeamPlace& place, std::int64_t waits) {
  Waits& all = waits_[{place.seam, place.layer}];
  ++all.calls;
  all.waits += waits;
}

void SeamWatch::write_total() const {
  channel_.write(Fact{"mutations_watched", std::to_string(calls_)});
  auto waited = nlohmann::json::array();
  for (const auto& [place, all] : waits_) {
    if (all.waits > 0) waited.push_back({place.first, place.second, all.calls, all.waits});
  }
  channel_.write(Fact{"host_waits", waited.dump()});
}

}  // namespace harness
