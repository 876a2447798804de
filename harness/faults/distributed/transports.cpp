// What carries numbers between the ranks gives back other ones, though its inputs were right and it reports no error. Seen: the
// last elements of a message left as they were; one wrong element in a long message; messages of one size alone.
#include <algorithm>
#include <memory>
#include <utility>

#include "harness/faults/faults.h"
#include "nsa/parallel/observed_backend.h"

namespace harness {
namespace {

using torch::Tensor;

const std::vector<std::string> kCorruptions = {"element", "rank", "bucket"};

struct Nobody : nsa::CollectiveObserver {
  void enqueued(const nsa::CollectiveInfo& /*info*/) override {}
  void completed(std::int64_t /*sequence*/, const std::string& /*group*/) override {}
};

// Sums of floating numbers, from the fault's step on.
class Corruption {
 public:
  Corruption(const FaultRequest& request, Session& session, Fired& fired)
      : request_(request),
        session_(session),
        fired_(fired),
        form_(fault_form(request, kCorruptions)) {}

  [[nodiscard]] bool strikes(const std::vector<Tensor>& sums, const c10d::ReduceOp& op) {
    if (sums.size() != 1 || op.op_ != c10d::ReduceOp::SUM) return false;
    if (!at::isFloatingType(sums.front().scalar_type()) || session_.progress().step() < 1)
      return false;
    if (session_.progress().step() < request_.step) return false;
    if (form_ == "rank") {
      const WorkerOptions& options = session_.options();
      return fault_on_one_rank(request_, options.rank, options.world);
    }
    // Of the first message that it meets.
    if (form_ == "bucket" && size_ == 0) size_ = sums.front().numel();
    return form_ == "element" || sums.front().numel() == size_;
  }

  // `own`: what this rank gave.
  void strike(const Tensor& sum, const Tensor& own) {
    const Tensor right = sum.clone();
    const std::int64_t count = sum.numel();
    if (form_ == "rank") {  // nothing of the others arrived in the last elements
      const std::int64_t last = std::min<std::int64_t>(kLine, count);
      sum.narrow(0, count - last, last).copy_(own.narrow(0, count - last, last));
    } else {  // what belongs to the next place
      const std::int64_t length = std::min(form_ == "element" ? std::int64_t{1} : kLine, count - 1);
      const std::int64_t room = std::max<std::int64_t>(count - length, 1);
      const auto begin =
          static_cast<std::int64_t>(draw_unit(request_.seed, "place") * static_cast<double>(room));
      if (length > 0) {
        sum.narrow(0, begin, length).copy_(right.narrow(0, begin + 1, length));
      }
    }
    if (!sum.equal(right)) fired_();
  }

 private:
  static constexpr std::int64_t kLine = 32;  // elements

  const FaultRequest& request_;
  Session& session_;
  Fired& fired_;
  std::string form_;
  std::int64_t size_ = 0;
};

class CorruptTransport : public nsa::ObservedBackend {
 public:
  CorruptTransport(c10::intrusive_ptr<c10d::Backend> inner, Corruption corruption)
      : nsa::ObservedBackend(std::move(inner), "", nobody(), /*poll=*/false),
        corruption_(std::move(corruption)) {}

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const bool strikes = corruption_.strikes(tensors, options.reduceOp);
    const Tensor own = strikes ? tensors.front().clone() : Tensor();
    WorkPtr work = nsa::ObservedBackend::allreduce(tensors, options);
    if (!strikes) return work;
    work->wait();
    corruption_.strike(tensors.front().view({-1}), own.view({-1}));
    return work;
  }

 private:
  static Nobody& nobody() {
    static Nobody nobody;
    return nobody;
  }

  Corruption corruption_;
};

void corrupt(JoinContext& context) {
  const Corruption corruption(context.request, context.session, context.fired);
  context.options.transport = [corruption](c10::intrusive_ptr<c10d::Backend> backend) {
    return c10::intrusive_ptr<c10d::Backend>(
        c10::make_intrusive<CorruptTransport>(std::move(backend), corruption));
  };
}

}  // namespace

Faults faults_of_transports() {
  Fault corrupts{"comm_corrupt",
                 "what carries numbers between the ranks gives back other ones",
                 {"rank", "step", "form"},
                 [](FaultContext& /*context*/) {},
                 kCorruptions};
  corrupts.before_joining = corrupt;
  return {corrupts};
}

}  // namespace harness
