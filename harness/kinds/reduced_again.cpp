#include "harness/kinds/reduced_again.h"

#include <map>
#include <optional>

#include "harness/kinds/step_clock.h"
#include "harness/worker/record/tensor_file.h"
#include "harness/worker/watch/late_streams.h"
#include "nsa/base/hash.h"

namespace harness {
namespace {

class Again {
 public:
  Again(Session& session, TrainingParts& parts, nsa::DataParallel& parallel, std::int64_t step)
      : session_(session), parts_(parts), parallel_(parallel), step_(step) {}

  void run(const char* call, Late late) {
    session_.enter("repeat", step_);
    for (auto& [name, parameter] : parts_.parameters) parameter.mutable_grad().reset();
    parallel_.before_forward(true);
    const auto plans = parallel_.buckets();
    const auto loss = parts_.forward_again();
    parts_.ledger.pass_over();
    {
      const LateInBackward delays(late, parts_.device);
      parallel_.backward(loss);
    }
    wait_for(parts_.device);
    write(call, plans);
  }

 private:
  void write(const char* call, const std::vector<nsa::BucketPlan>& plans) {
    std::map<int, int> bucket_of;
    for (const nsa::BucketPlan& plan : plans) {
      for (const int index : plan.params) bucket_of[index] = plan.bucket;
    }
    for (std::size_t i = 0; i < parts_.parameters.size(); ++i) {
      const auto& [name, parameter] = parts_.parameters[i];
      const torch::Tensor gradient = parameter.grad();
      const auto bucket = bucket_of.find(static_cast<int>(i));
      ReducedAgain row{step_, call, name, bucket == bucket_of.end() ? -1 : bucket->second, ""};
      if (gradient.defined()) row.hash = nsa::hash_hex(bytes_of(gradient.cpu().contiguous()));
      session_.channel().write(row);
    }
  }

  Session& session_;
  TrainingParts& parts_;
  nsa::DataParallel& parallel_;
  std::int64_t step_;
};

}  // namespace

void reduce_again(Session& session,
                  TrainingParts& parts,
                  nsa::DataParallel& parallel,
                  std::int64_t step) {
  if (!session.wants_check("repeats_equal") || session.observe() < kWatchValues) return;
  Again again(session, parts, parallel, step);
  {
    const InSeries in_series(parts.device);
    again.run("in_series", Late::nobody);
    again.run("in_series_2", Late::nobody);
  }
  again.run("as_it_is", Late::nobody);
  again.run("late", Late::current_stream);
  again.run("others_late", Late::other_streams);
}

}  // namespace harness
